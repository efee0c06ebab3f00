-- Written for this test, with the names and the traits of Northwind: short keys that the
-- application gives, composite keys, keys of text, pictures, an employee who reports to another
-- one, foreign keys added afterwards, and a view.
BEGIN;
CREATE TABLE categories (
    category_id smallint NOT NULL PRIMARY KEY,
    category_name character varying(15) NOT NULL,
    description text,
    picture bytea
);
CREATE TABLE customer_customer_demo (
    customer_id character varying(5) NOT NULL,
    customer_type_id character varying(5) NOT NULL,
    PRIMARY KEY (customer_id, customer_type_id)
);
CREATE TABLE customer_demographics (
    customer_type_id character varying(5) NOT NULL PRIMARY KEY,
    customer_desc text
);
CREATE TABLE customers (
    customer_id character varying(5) NOT NULL PRIMARY KEY,
    company_name character varying(40) NOT NULL,
    city character varying(15),
    phone character varying(24)
);
CREATE TABLE employees (
    employee_id smallint NOT NULL PRIMARY KEY,
    last_name character varying(20) NOT NULL,
    birth_date date,
    photo bytea,
    notes text,
    reports_to smallint REFERENCES employees
);
CREATE TABLE employee_territories (
    employee_id smallint NOT NULL REFERENCES employees,
    territory_id character varying(20) NOT NULL,
    PRIMARY KEY (employee_id, territory_id)
);
CREATE TABLE order_details (
    order_id smallint NOT NULL,
    product_id smallint NOT NULL,
    unit_price real NOT NULL,
    quantity smallint NOT NULL,
    discount real NOT NULL,
    PRIMARY KEY (order_id, product_id)
);
CREATE TABLE orders (
    order_id smallint NOT NULL PRIMARY KEY,
    customer_id character varying(5),
    employee_id smallint REFERENCES employees,
    order_date date,
    ship_via smallint,
    freight real,
    ship_name character varying(40)
);
CREATE TABLE products (
    product_id smallint NOT NULL PRIMARY KEY,
    product_name character varying(40) NOT NULL,
    supplier_id smallint,
    category_id smallint REFERENCES categories,
    unit_price real,
    discontinued integer NOT NULL
);
CREATE TABLE region (
    region_id smallint NOT NULL PRIMARY KEY,
    region_description character varying(60) NOT NULL
);
CREATE TABLE shippers (
    shipper_id smallint NOT NULL PRIMARY KEY,
    company_name character varying(40) NOT NULL
);
CREATE TABLE suppliers (
    supplier_id smallint NOT NULL PRIMARY KEY,
    company_name character varying(40) NOT NULL,
    homepage text
);
CREATE TABLE territories (
    territory_id character varying(20) NOT NULL PRIMARY KEY,
    territory_description character varying(60) NOT NULL,
    region_id smallint NOT NULL REFERENCES region
);
CREATE TABLE us_states (
    state_id smallint NOT NULL PRIMARY KEY,
    state_name character varying(100),
    state_abbr character varying(2)
);
ALTER TABLE customer_customer_demo
    ADD FOREIGN KEY (customer_type_id) REFERENCES customer_demographics,
    ADD FOREIGN KEY (customer_id) REFERENCES customers;
ALTER TABLE employee_territories ADD FOREIGN KEY (territory_id) REFERENCES territories;
ALTER TABLE order_details
    ADD FOREIGN KEY (order_id) REFERENCES orders,
    ADD FOREIGN KEY (product_id) REFERENCES products;
ALTER TABLE orders
    ADD FOREIGN KEY (customer_id) REFERENCES customers,
    ADD FOREIGN KEY (ship_via) REFERENCES shippers;
ALTER TABLE products ADD FOREIGN KEY (supplier_id) REFERENCES suppliers;
CREATE VIEW order_subtotals AS
    SELECT order_id, sum(unit_price * quantity * (1 - discount)) AS subtotal
    FROM order_details GROUP BY order_id;
COMMIT;
