-- Written for this test, with the names and the traits of Northwind: names with blanks, composite
-- keys, keys of text, pictures, an employee who reports to another one, and views.
BEGIN;
CREATE TABLE [Categories] (
    [CategoryID] INTEGER PRIMARY KEY AUTOINCREMENT,
    [CategoryName] TEXT,
    [Description] TEXT,
    [Picture] BLOB
);
CREATE TABLE [CustomerCustomerDemo] (
    [CustomerID] TEXT NOT NULL REFERENCES [Customers] ([CustomerID]),
    [CustomerTypeID] TEXT NOT NULL REFERENCES [CustomerDemographics] ([CustomerTypeID]),
    PRIMARY KEY ([CustomerID], [CustomerTypeID])
);
CREATE TABLE [CustomerDemographics] (
    [CustomerTypeID] TEXT NOT NULL PRIMARY KEY,
    [CustomerDesc] TEXT
);
CREATE TABLE [Customers] (
    [CustomerID] TEXT PRIMARY KEY,
    [CompanyName] TEXT,
    [ContactName] TEXT,
    [City] TEXT,
    [PostalCode] TEXT,
    [Country] TEXT,
    [Phone] TEXT
);
CREATE TABLE [Employees] (
    [EmployeeID] INTEGER PRIMARY KEY AUTOINCREMENT,
    [LastName] TEXT,
    [BirthDate] DATE,
    [HireDate] DATE,
    [Photo] BLOB,
    [Notes] TEXT,
    [ReportsTo] INTEGER REFERENCES [Employees] ([EmployeeID]),
    [PhotoPath] TEXT
);
CREATE TABLE [EmployeeTerritories] (
    [EmployeeID] INTEGER NOT NULL REFERENCES [Employees] ([EmployeeID]),
    [TerritoryID] TEXT NOT NULL REFERENCES [Territories] ([TerritoryID]),
    PRIMARY KEY ([EmployeeID], [TerritoryID])
);
CREATE TABLE [Order Details] (
    [OrderID] INTEGER NOT NULL REFERENCES [Orders] ([OrderID]),
    [ProductID] INTEGER NOT NULL REFERENCES [Products] ([ProductID]),
    [UnitPrice] NUMERIC NOT NULL DEFAULT 0 CHECK ([UnitPrice] >= 0),
    [Quantity] INTEGER NOT NULL DEFAULT 1 CHECK ([Quantity] > 0),
    [Discount] REAL NOT NULL DEFAULT 0 CHECK ([Discount] >= 0 AND [Discount] <= 1),
    PRIMARY KEY ("OrderID", "ProductID")
);
CREATE TABLE [Orders] (
    [OrderID] INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    [CustomerID] TEXT REFERENCES [Customers] ([CustomerID]),
    [EmployeeID] INTEGER REFERENCES [Employees] ([EmployeeID]),
    [OrderDate] DATETIME,
    [ShippedDate] DATETIME,
    [ShipVia] INTEGER REFERENCES [Shippers] ([ShipperID]),
    [Freight] NUMERIC DEFAULT 0,
    [ShipName] TEXT
);
CREATE TABLE [Products] (
    [ProductID] INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    [ProductName] TEXT NOT NULL,
    [SupplierID] INTEGER REFERENCES [Suppliers] ([SupplierID]),
    [CategoryID] INTEGER REFERENCES [Categories] ([CategoryID]),
    [UnitPrice] NUMERIC DEFAULT 0 CHECK ([UnitPrice] >= 0),
    [ReorderLevel] INTEGER DEFAULT 0 CHECK ([ReorderLevel] >= 0),
    [Discontinued] TEXT NOT NULL DEFAULT '0'
);
CREATE TABLE [Regions] (
    [RegionID] INTEGER NOT NULL PRIMARY KEY,
    [RegionDescription] TEXT NOT NULL
);
CREATE TABLE [Shippers] (
    [ShipperID] INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    [CompanyName] TEXT NOT NULL,
    [Phone] TEXT
);
CREATE TABLE [Suppliers] (
    [SupplierID] INTEGER NOT NULL PRIMARY KEY AUTOINCREMENT,
    [CompanyName] TEXT NOT NULL,
    [Fax] TEXT,
    [HomePage] TEXT
);
CREATE TABLE [Territories] (
    [TerritoryID] TEXT NOT NULL PRIMARY KEY,
    [TerritoryDescription] TEXT NOT NULL,
    [RegionID] INTEGER NOT NULL REFERENCES [Regions] ([RegionID])
);
CREATE INDEX [Order Details by product] ON [Order Details] ([ProductID]);
CREATE VIEW [Alphabetical list of products] AS
    SELECT p.*, c.[CategoryName] FROM [Products] p JOIN [Categories] c USING ([CategoryID])
    WHERE p.[Discontinued] = '0' ORDER BY p.[ProductName];
CREATE VIEW [Order Subtotals] AS
    SELECT [OrderID], sum([UnitPrice] * [Quantity] * (1 - [Discount])) AS [Subtotal]
    FROM [Order Details] GROUP BY [OrderID];
COMMIT;
