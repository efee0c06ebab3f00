-- Written for this test, with the names and the traits of the port of Sakila to SQLite: keys of
-- several types without AUTOINCREMENT, CHECKs of ratings and features, triggers that set the time
-- of the last change or keep another table in step, a circle of two tables, and views.
PRAGMA foreign_keys = OFF;
BEGIN;
CREATE TABLE actor (
    actor_id numeric NOT NULL,
    first_name VARCHAR(45) NOT NULL,
    last_name VARCHAR(45) NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (actor_id)
);
CREATE TABLE country (
    country_id SMALLINT NOT NULL,
    country VARCHAR(50) NOT NULL,
    last_update TIMESTAMP,
    PRIMARY KEY (country_id)
);
CREATE TABLE city (
    city_id int NOT NULL,
    city VARCHAR(50) NOT NULL,
    country_id SMALLINT NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (city_id),
    CONSTRAINT fk_city_country FOREIGN KEY (country_id) REFERENCES country (country_id)
        ON DELETE NO ACTION ON UPDATE CASCADE
);
CREATE TABLE address (
    address_id int NOT NULL,
    address VARCHAR(50) NOT NULL,
    address2 VARCHAR(50) DEFAULT NULL,
    city_id INT NOT NULL REFERENCES city (city_id) ON UPDATE CASCADE,
    phone VARCHAR(20) NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (address_id)
);
CREATE TABLE language (
    language_id SMALLINT NOT NULL,
    name CHAR(20) NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (language_id)
);
CREATE TABLE category (
    category_id SMALLINT NOT NULL,
    name VARCHAR(25) NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (category_id)
);
CREATE TABLE customer (
    customer_id INT NOT NULL,
    store_id INT NOT NULL REFERENCES store (store_id) ON UPDATE CASCADE,
    email VARCHAR(50) DEFAULT NULL,
    address_id INT NOT NULL REFERENCES address (address_id) ON UPDATE CASCADE,
    active CHAR(1) DEFAULT 'Y' NOT NULL,
    create_date TIMESTAMP NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (customer_id)
);
CREATE TABLE film (
    film_id int NOT NULL,
    title VARCHAR(255) NOT NULL,
    description BLOB SUB_TYPE TEXT DEFAULT NULL,
    release_year VARCHAR(4) DEFAULT NULL,
    language_id SMALLINT NOT NULL REFERENCES language (language_id),
    original_language_id SMALLINT DEFAULT NULL REFERENCES language (language_id),
    rental_rate DECIMAL(4,2) DEFAULT 4.99 NOT NULL,
    rating VARCHAR(10) DEFAULT 'G',
    special_features VARCHAR(100) DEFAULT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (film_id),
    CONSTRAINT known_rating CHECK (rating IN ('G', 'PG', 'PG-13', 'R', 'NC-17')),
    CONSTRAINT known_features CHECK (special_features IS NULL
        OR special_features LIKE '%Trailers%' OR special_features LIKE '%Commentaries%')
);
CREATE TABLE film_actor (
    actor_id INT NOT NULL REFERENCES actor (actor_id) ON DELETE NO ACTION ON UPDATE CASCADE,
    film_id INT NOT NULL REFERENCES film (film_id) ON DELETE NO ACTION ON UPDATE CASCADE,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (actor_id, film_id)
);
CREATE TABLE film_category (
    film_id INT NOT NULL REFERENCES film (film_id),
    category_id SMALLINT NOT NULL REFERENCES category (category_id),
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (film_id, category_id)
);
CREATE TABLE film_text (
    film_id SMALLINT NOT NULL,
    title VARCHAR(255) NOT NULL,
    description BLOB SUB_TYPE TEXT,
    PRIMARY KEY (film_id)
);
CREATE TABLE inventory (
    inventory_id INT NOT NULL,
    film_id INT NOT NULL REFERENCES film (film_id),
    store_id INT NOT NULL REFERENCES store (store_id),
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (inventory_id)
);
CREATE TABLE staff (
    staff_id SMALLINT NOT NULL,
    last_name VARCHAR(45) NOT NULL,
    address_id INT NOT NULL REFERENCES address (address_id),
    picture BLOB DEFAULT NULL,
    store_id INT NOT NULL REFERENCES store (store_id),
    active SMALLINT DEFAULT 1 NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (staff_id)
);
CREATE TABLE store (
    store_id INT NOT NULL,
    manager_staff_id SMALLINT NOT NULL REFERENCES staff (staff_id),
    address_id INT NOT NULL REFERENCES address (address_id),
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (store_id)
);
CREATE TABLE payment (
    payment_id int NOT NULL,
    customer_id INT NOT NULL REFERENCES customer (customer_id),
    staff_id SMALLINT NOT NULL REFERENCES staff (staff_id),
    rental_id INT DEFAULT NULL REFERENCES rental (rental_id) ON DELETE SET NULL ON UPDATE CASCADE,
    amount DECIMAL(5,2) NOT NULL,
    payment_date TIMESTAMP NOT NULL,
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (payment_id)
);
CREATE TABLE rental (
    rental_id INT NOT NULL,
    rental_date TIMESTAMP NOT NULL,
    inventory_id INT NOT NULL REFERENCES inventory (inventory_id),
    customer_id INT NOT NULL REFERENCES customer (customer_id),
    return_date TIMESTAMP DEFAULT NULL,
    staff_id SMALLINT NOT NULL REFERENCES staff (staff_id),
    last_update TIMESTAMP NOT NULL,
    PRIMARY KEY (rental_id)
);
CREATE UNIQUE INDEX idx_rental_uq ON rental (rental_date, inventory_id, customer_id);
CREATE INDEX idx_actor_last_name ON actor (last_name);
CREATE TRIGGER actor_trigger_ai AFTER INSERT ON actor BEGIN
    UPDATE actor SET last_update = DATETIME('now') WHERE rowid = new.rowid;
END;
CREATE TRIGGER actor_trigger_au AFTER UPDATE ON actor BEGIN
    UPDATE actor SET last_update = DATETIME('now') WHERE rowid = new.rowid;
END;
CREATE TRIGGER customer_trigger_au AFTER UPDATE ON customer BEGIN
    UPDATE customer SET last_update = DATETIME('now') WHERE rowid = new.rowid;
END;
CREATE TRIGGER rental_trigger_ai AFTER INSERT ON rental BEGIN
    UPDATE rental SET last_update = DATETIME('now') WHERE rowid = new.rowid;
END;
CREATE TRIGGER film_trigger_ai AFTER INSERT ON film BEGIN
    UPDATE film SET last_update = DATETIME('now') WHERE rowid = new.rowid;
    INSERT INTO film_text VALUES (new.film_id, new.title, new.description);
END;
CREATE TRIGGER film_trigger_au AFTER UPDATE ON film BEGIN
    UPDATE film SET last_update = DATETIME('now') WHERE rowid = new.rowid;
    UPDATE film_text SET title = new.title WHERE film_id = old.film_id;
END;
CREATE TRIGGER film_trigger_ad AFTER DELETE ON film BEGIN
    DELETE FROM film_text WHERE film_id = old.film_id;
END;
CREATE VIEW customer_list AS
    SELECT cu.customer_id AS ID, a.phone AS phone, CASE active WHEN 'Y' THEN 'active' END AS notes
    FROM customer cu JOIN address a ON cu.address_id = a.address_id;
-- Whoever begins with such a circle needs a first pair.
INSERT INTO country VALUES (1, 'Somewhere', '2020-01-01 00:00:00');
INSERT INTO city VALUES (1, 'Here', 1, '2020-01-01 00:00:00');
INSERT INTO address VALUES (1, '1 Street', NULL, 1, '1', '2020-01-01 00:00:00');
INSERT INTO staff VALUES (1, 'First', 1, NULL, 1, 1, '2020-01-01 00:00:00');
INSERT INTO store VALUES (1, 1, 1, '2020-01-01 00:00:00');
COMMIT;
