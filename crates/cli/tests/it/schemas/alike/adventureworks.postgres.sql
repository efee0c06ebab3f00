-- Written for this test, with the names and the traits of the port of AdventureWorks to PostgreSQL:
-- many schemas, domains for names and flags, xml, a uuid in nearly every row, money as numeric,
-- computed columns, CHECKs of all kinds, places in a hierarchy as text, composite keys, and views.
BEGIN;
CREATE DOMAIN "OrderNumber" varchar(25) NULL;
CREATE DOMAIN "AccountNumber" varchar(15) NULL;
CREATE DOMAIN "Flag" boolean NOT NULL;
CREATE DOMAIN "NameStyle" boolean NOT NULL;
CREATE DOMAIN "Name" varchar(50) NULL;
CREATE DOMAIN "Phone" varchar(25) NULL;
CREATE SCHEMA person;
CREATE SCHEMA humanresources;
CREATE SCHEMA production;
CREATE SCHEMA purchasing;
CREATE SCHEMA sales;
CREATE TABLE person.businessentity (
    businessentityid serial NOT NULL PRIMARY KEY,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid(),
    modifieddate timestamp NOT NULL DEFAULT now()
);
CREATE TABLE person.person (
    businessentityid int NOT NULL PRIMARY KEY REFERENCES person.businessentity,
    persontype char(2) NOT NULL,
    namestyle "NameStyle" NOT NULL DEFAULT false,
    firstname "Name" NOT NULL,
    middlename "Name" NULL,
    emailpromotion int NOT NULL DEFAULT 0,
    additionalcontactinfo xml NULL,
    demographics xml NULL,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid(),
    modifieddate timestamp NOT NULL DEFAULT now(),
    CONSTRAINT "CK_Person_EmailPromotion" CHECK (emailpromotion BETWEEN 0 AND 2),
    CONSTRAINT "CK_Person_PersonType" CHECK (persontype IS NULL
        OR upper(persontype) IN ('SC', 'VC', 'IN', 'EM', 'SP', 'GC'))
);
CREATE TABLE person.emailaddress (
    businessentityid int NOT NULL REFERENCES person.person,
    emailaddressid serial NOT NULL,
    emailaddress varchar(50) NULL,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid(),
    PRIMARY KEY (businessentityid, emailaddressid)
);
CREATE TABLE person.countryregion (
    countryregioncode varchar(3) NOT NULL PRIMARY KEY,
    name "Name" NOT NULL
);
CREATE TABLE person.stateprovince (
    stateprovinceid serial NOT NULL PRIMARY KEY,
    stateprovincecode char(3) NOT NULL,
    countryregioncode varchar(3) NOT NULL REFERENCES person.countryregion,
    isonlystateprovinceflag "Flag" NOT NULL DEFAULT true,
    name "Name" NOT NULL
);
CREATE TABLE person.address (
    addressid serial NOT NULL PRIMARY KEY,
    addressline1 varchar(60) NOT NULL,
    stateprovinceid int NOT NULL REFERENCES person.stateprovince,
    spatiallocation bytea NULL,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid()
);
CREATE TABLE person.addresstype (
    addresstypeid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL
);
CREATE TABLE person.businessentityaddress (
    businessentityid int NOT NULL REFERENCES person.businessentity,
    addressid int NOT NULL REFERENCES person.address,
    addresstypeid int NOT NULL REFERENCES person.addresstype,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid(),
    PRIMARY KEY (businessentityid, addressid, addresstypeid)
);
CREATE TABLE humanresources.department (
    departmentid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    groupname "Name" NOT NULL
);
CREATE TABLE humanresources.shift (
    shiftid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    starttime time NOT NULL,
    endtime time NOT NULL
);
CREATE TABLE humanresources.employee (
    businessentityid int NOT NULL PRIMARY KEY REFERENCES person.person,
    nationalidnumber varchar(15) NOT NULL,
    jobtitle varchar(50) NOT NULL,
    birthdate date NOT NULL,
    maritalstatus char(1) NOT NULL,
    gender char(1) NOT NULL,
    hiredate date NOT NULL,
    salariedflag "Flag" NOT NULL DEFAULT true,
    vacationhours smallint NOT NULL DEFAULT 0,
    currentflag "Flag" NOT NULL DEFAULT true,
    organizationnode varchar DEFAULT '/',
    CHECK (birthdate >= '1930-01-01' AND birthdate <= now() - interval '18 years'),
    CHECK (upper(maritalstatus) IN ('M', 'S')),
    CHECK (upper(gender) IN ('M', 'F')),
    CHECK (hiredate >= '1996-07-01' AND hiredate <= now() + interval '1 day'),
    CHECK (vacationhours BETWEEN -40 AND 240)
);
CREATE TABLE humanresources.employeedepartmenthistory (
    businessentityid int NOT NULL REFERENCES humanresources.employee,
    departmentid smallint NOT NULL REFERENCES humanresources.department,
    shiftid smallint NOT NULL REFERENCES humanresources.shift,
    startdate date NOT NULL,
    enddate date NULL,
    CHECK (enddate >= startdate OR enddate IS NULL),
    PRIMARY KEY (businessentityid, startdate, departmentid, shiftid)
);
CREATE TABLE humanresources.employeepayhistory (
    businessentityid int NOT NULL REFERENCES humanresources.employee,
    ratechangedate timestamp NOT NULL,
    rate numeric NOT NULL,
    payfrequency smallint NOT NULL,
    CHECK (payfrequency IN (1, 2)),
    CHECK (rate BETWEEN 6.50 AND 200.00),
    PRIMARY KEY (businessentityid, ratechangedate)
);
CREATE TABLE production.unitmeasure (
    unitmeasurecode char(3) NOT NULL PRIMARY KEY,
    name "Name" NOT NULL
);
CREATE TABLE production.productmodel (
    productmodelid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    catalogdescription xml NULL,
    instructions xml NULL
);
CREATE TABLE production.product (
    productid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    productnumber varchar(25) NOT NULL,
    makeflag "Flag" NOT NULL DEFAULT true,
    safetystocklevel smallint NOT NULL,
    listprice numeric NOT NULL,
    standardcost money NOT NULL DEFAULT 0,
    sizeunitmeasurecode char(3) NULL REFERENCES production.unitmeasure,
    weight decimal(8, 2) NULL,
    productline char(2) NULL,
    productmodelid int NULL REFERENCES production.productmodel,
    sellstartdate timestamp NOT NULL,
    sellenddate timestamp NULL,
    CHECK (safetystocklevel > 0),
    CHECK (listprice >= 0.00),
    CHECK (weight > 0.00),
    CHECK (upper(productline) IN ('S', 'T', 'M', 'R') OR productline IS NULL),
    CHECK (sellenddate >= sellstartdate OR sellenddate IS NULL)
);
CREATE TABLE production.billofmaterials (
    billofmaterialsid serial NOT NULL PRIMARY KEY,
    productassemblyid int NULL REFERENCES production.product,
    componentid int NOT NULL REFERENCES production.product,
    unitmeasurecode char(3) NOT NULL REFERENCES production.unitmeasure,
    bomlevel smallint NOT NULL,
    perassemblyqty decimal(8, 2) NOT NULL DEFAULT 1.00,
    CHECK (productassemblyid <> componentid),
    CHECK ((productassemblyid IS NULL AND bomlevel = 0 AND perassemblyqty = 1.00)
        OR (productassemblyid IS NOT NULL AND bomlevel >= 1)),
    CHECK (perassemblyqty >= 1.00)
);
CREATE TABLE production.document (
    documentnode varchar NOT NULL DEFAULT '/' PRIMARY KEY,
    title varchar(50) NOT NULL,
    owner int NOT NULL REFERENCES humanresources.employee,
    folderflag "Flag" NOT NULL DEFAULT false,
    status smallint NOT NULL,
    document bytea NULL,
    rowguid uuid NOT NULL UNIQUE DEFAULT gen_random_uuid(),
    CHECK (status BETWEEN 1 AND 3)
);
CREATE TABLE production.productdocument (
    productid int NOT NULL REFERENCES production.product,
    documentnode varchar NOT NULL DEFAULT '/' REFERENCES production.document,
    PRIMARY KEY (productid, documentnode)
);
CREATE TABLE production.location (
    locationid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    costrate numeric NOT NULL DEFAULT 0.00 CHECK (costrate >= 0.00)
);
CREATE TABLE production.productinventory (
    productid int NOT NULL REFERENCES production.product,
    locationid smallint NOT NULL REFERENCES production.location,
    shelf varchar(10) NOT NULL,
    bin smallint NOT NULL CHECK (bin BETWEEN 0 AND 100),
    quantity smallint NOT NULL DEFAULT 0,
    PRIMARY KEY (productid, locationid)
);
CREATE TABLE purchasing.vendor (
    businessentityid int NOT NULL PRIMARY KEY REFERENCES person.businessentity,
    accountnumber "AccountNumber" NOT NULL,
    name "Name" NOT NULL,
    creditrating smallint NOT NULL CHECK (creditrating BETWEEN 1 AND 5),
    activeflag "Flag" NOT NULL DEFAULT true
);
CREATE TABLE sales.salesterritory (
    territoryid serial NOT NULL PRIMARY KEY,
    name "Name" NOT NULL,
    countryregioncode varchar(3) NOT NULL REFERENCES person.countryregion,
    "group" varchar(50) NOT NULL,
    salesytd numeric NOT NULL DEFAULT 0.00 CHECK (salesytd >= 0.00)
);
CREATE TABLE sales.salesperson (
    businessentityid int NOT NULL PRIMARY KEY REFERENCES humanresources.employee,
    territoryid int NULL REFERENCES sales.salesterritory,
    salesquota numeric NULL CHECK (salesquota > 0.00),
    commissionpct numeric(10, 4) NOT NULL DEFAULT 0.00 CHECK (commissionpct >= 0.00)
);
CREATE TABLE sales.customer (
    customerid serial NOT NULL PRIMARY KEY,
    personid int NULL REFERENCES person.person,
    territoryid int NULL REFERENCES sales.salesterritory,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid()
);
CREATE TABLE sales.salesorderheader (
    salesorderid serial NOT NULL PRIMARY KEY,
    orderdate timestamp NOT NULL DEFAULT now(),
    duedate timestamp NOT NULL,
    onlineorderflag "Flag" NOT NULL DEFAULT true,
    purchaseordernumber "OrderNumber" NULL,
    customerid int NOT NULL REFERENCES sales.customer,
    salespersonid int NULL REFERENCES sales.salesperson,
    shiptoaddressid int NOT NULL REFERENCES person.address,
    status smallint NOT NULL DEFAULT 1 CHECK (status BETWEEN 0 AND 8),
    subtotal numeric NOT NULL DEFAULT 0.00 CHECK (subtotal >= 0.00),
    taxamt numeric NOT NULL DEFAULT 0.00 CHECK (taxamt >= 0.00),
    totaldue numeric GENERATED ALWAYS AS (subtotal + taxamt) STORED,
    CHECK (duedate >= orderdate)
);
CREATE TABLE sales.specialoffer (
    specialofferid serial NOT NULL PRIMARY KEY,
    description varchar(255) NOT NULL,
    minqty int NOT NULL DEFAULT 0 CHECK (minqty >= 0),
    maxqty int NULL CHECK (maxqty >= 0),
    startdate timestamp NOT NULL,
    enddate timestamp NOT NULL,
    CHECK (enddate >= startdate)
);
CREATE TABLE sales.specialofferproduct (
    specialofferid int NOT NULL REFERENCES sales.specialoffer,
    productid int NOT NULL REFERENCES production.product,
    rowguid uuid NOT NULL DEFAULT gen_random_uuid(),
    PRIMARY KEY (specialofferid, productid)
);
CREATE TABLE sales.salesorderdetail (
    salesorderid int NOT NULL REFERENCES sales.salesorderheader ON DELETE CASCADE,
    salesorderdetailid serial NOT NULL,
    orderqty smallint NOT NULL CHECK (orderqty > 0),
    productid int NOT NULL,
    specialofferid int NOT NULL,
    unitprice numeric NOT NULL CHECK (unitprice >= 0.00),
    unitpricediscount numeric NOT NULL DEFAULT 0.0,
    linetotal numeric
        GENERATED ALWAYS AS (unitprice * (1.0 - unitpricediscount) * orderqty) STORED,
    PRIMARY KEY (salesorderid, salesorderdetailid),
    FOREIGN KEY (specialofferid, productid) REFERENCES sales.specialofferproduct
);
CREATE TABLE sales.store (
    businessentityid int NOT NULL PRIMARY KEY REFERENCES person.businessentity,
    name "Name" NOT NULL,
    salespersonid int NULL REFERENCES sales.salesperson,
    demographics xml NULL
);
CREATE VIEW sales.vpersondemographics AS
    SELECT businessentityid, (xpath('/row/n/text()', demographics))[1]::text AS n
    FROM person.person;
COMMENT ON COLUMN sales.store.demographics IS 'demographic information as xml';
COMMIT;
