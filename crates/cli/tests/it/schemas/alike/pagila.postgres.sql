-- Written for this test, with the names and the traits of Pagila: an enum, domains, a tsvector that
-- a trigger fills, arrays, payments in partitions, ON UPDATE CASCADE, triggers that set the time of
-- the last change, generated columns, a circle of two tables, and views.
BEGIN;
CREATE TYPE mpaa_rating AS ENUM ('G', 'PG', 'PG-13', 'R', 'NC-17');
CREATE DOMAIN year AS integer CONSTRAINT year_check CHECK (VALUE >= 1901 AND VALUE <= 2155);
CREATE FUNCTION last_updated() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.last_update = CURRENT_TIMESTAMP;
    RETURN NEW;
END $$;
CREATE SEQUENCE actor_actor_id_seq;
CREATE TABLE actor (
    actor_id integer DEFAULT nextval('actor_actor_id_seq'::regclass) NOT NULL PRIMARY KEY,
    first_name text NOT NULL,
    last_name text NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE category (
    category_id serial NOT NULL PRIMARY KEY,
    name text NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE country (
    country_id serial NOT NULL PRIMARY KEY,
    country text NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE city (
    city_id serial NOT NULL PRIMARY KEY,
    city text NOT NULL,
    country_id integer NOT NULL REFERENCES country ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE address (
    address_id serial NOT NULL PRIMARY KEY,
    address text NOT NULL,
    city_id integer NOT NULL REFERENCES city ON UPDATE CASCADE ON DELETE RESTRICT,
    phone text NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE language (
    language_id serial NOT NULL PRIMARY KEY,
    name character(20) NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE film (
    film_id serial NOT NULL PRIMARY KEY,
    title text NOT NULL,
    description text,
    release_year year,
    language_id integer NOT NULL REFERENCES language ON UPDATE CASCADE ON DELETE RESTRICT,
    original_language_id integer REFERENCES language ON UPDATE CASCADE ON DELETE RESTRICT,
    rental_duration smallint DEFAULT 3 NOT NULL,
    rental_rate numeric(4,2) DEFAULT 4.99 NOT NULL,
    rating mpaa_rating DEFAULT 'G'::mpaa_rating,
    last_update timestamp with time zone DEFAULT now() NOT NULL,
    special_features text[],
    fulltext tsvector NOT NULL,
    revenue_projection numeric(9,2) GENERATED ALWAYS AS (rental_duration * rental_rate) STORED
);
CREATE INDEX film_fulltext_idx ON film USING gist (fulltext);
CREATE TABLE film_actor (
    actor_id integer NOT NULL REFERENCES actor ON UPDATE CASCADE ON DELETE RESTRICT,
    film_id integer NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL,
    PRIMARY KEY (actor_id, film_id)
);
CREATE TABLE film_category (
    film_id integer NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE RESTRICT,
    category_id integer NOT NULL REFERENCES category ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL,
    PRIMARY KEY (film_id, category_id)
);
CREATE TABLE staff (
    staff_id serial NOT NULL PRIMARY KEY,
    last_name text NOT NULL,
    address_id integer NOT NULL REFERENCES address ON UPDATE CASCADE ON DELETE RESTRICT,
    store_id integer NOT NULL,
    active boolean DEFAULT true NOT NULL,
    last_update timestamp with time zone DEFAULT now() NOT NULL,
    picture bytea
);
CREATE TABLE store (
    store_id serial NOT NULL PRIMARY KEY,
    manager_staff_id integer NOT NULL,
    address_id integer NOT NULL REFERENCES address ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE UNIQUE INDEX idx_unq_manager_staff_id ON store (manager_staff_id);
CREATE TABLE inventory (
    inventory_id serial NOT NULL PRIMARY KEY,
    film_id integer NOT NULL REFERENCES film ON UPDATE CASCADE ON DELETE RESTRICT,
    store_id integer NOT NULL REFERENCES store ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL
);
CREATE TABLE customer (
    customer_id serial NOT NULL PRIMARY KEY,
    store_id integer NOT NULL REFERENCES store ON UPDATE CASCADE ON DELETE RESTRICT,
    email text,
    address_id integer NOT NULL REFERENCES address ON UPDATE CASCADE ON DELETE RESTRICT,
    activebool boolean DEFAULT true NOT NULL,
    create_date date DEFAULT CURRENT_DATE NOT NULL,
    last_update timestamp with time zone DEFAULT now(),
    active integer
);
CREATE TABLE rental (
    rental_id serial NOT NULL PRIMARY KEY,
    rental_date timestamp with time zone NOT NULL,
    inventory_id integer NOT NULL REFERENCES inventory ON UPDATE CASCADE ON DELETE RESTRICT,
    customer_id integer NOT NULL REFERENCES customer ON UPDATE CASCADE ON DELETE RESTRICT,
    return_date timestamp with time zone,
    staff_id integer NOT NULL REFERENCES staff ON UPDATE CASCADE ON DELETE RESTRICT,
    last_update timestamp with time zone DEFAULT now() NOT NULL,
    rental_period tstzrange GENERATED ALWAYS AS (tstzrange(rental_date, return_date)) STORED
);
CREATE UNIQUE INDEX idx_unq_rental ON rental (rental_date, inventory_id, customer_id);
CREATE TABLE payment (
    payment_id serial NOT NULL,
    customer_id integer NOT NULL,
    staff_id integer NOT NULL,
    rental_id integer NOT NULL REFERENCES rental ON UPDATE CASCADE ON DELETE RESTRICT,
    amount numeric(5,2) NOT NULL,
    payment_date timestamp with time zone NOT NULL,
    PRIMARY KEY (payment_date, payment_id)
) PARTITION BY RANGE (payment_date);
CREATE TABLE payment_p2001_01 PARTITION OF payment FOR VALUES FROM ('2001-01-01') TO ('2010-02-01');
CREATE TABLE payment_p2010_02 PARTITION OF payment FOR VALUES FROM ('2010-02-01') TO ('2099-01-01');
INSERT INTO country VALUES (1, 'Somewhere');
INSERT INTO city VALUES (1, 'Here', 1);
INSERT INTO address VALUES (1, '1 Street', 1, '1');
-- Whoever begins with such a circle needs a first pair.
INSERT INTO staff VALUES (1, 'First', 1, 1);
INSERT INTO store VALUES (1, 1, 1);
ALTER TABLE staff
    ADD FOREIGN KEY (store_id) REFERENCES store ON UPDATE CASCADE ON DELETE RESTRICT;
ALTER TABLE store
    ADD FOREIGN KEY (manager_staff_id) REFERENCES staff ON UPDATE CASCADE ON DELETE RESTRICT;
CREATE TRIGGER film_fulltext_trigger BEFORE INSERT OR UPDATE ON film FOR EACH ROW
    EXECUTE FUNCTION
    tsvector_update_trigger('fulltext', 'pg_catalog.english', 'title', 'description');
CREATE TRIGGER last_updated BEFORE UPDATE ON actor FOR EACH ROW
    EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON customer FOR EACH ROW
    EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film FOR EACH ROW
    EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON film_actor FOR EACH ROW
    EXECUTE FUNCTION last_updated();
CREATE TRIGGER last_updated BEFORE UPDATE ON store FOR EACH ROW
    EXECUTE FUNCTION last_updated();
CREATE VIEW actor_info AS
    SELECT a.actor_id, string_agg(f.title, ', ') AS film_info
    FROM actor a JOIN film_actor USING (actor_id) JOIN film f USING (film_id) GROUP BY 1;
CREATE MATERIALIZED VIEW rental_by_category AS
    SELECT name, count(*) AS rentals FROM category JOIN film_category USING (category_id)
    JOIN inventory USING (film_id) JOIN rental USING (inventory_id) GROUP BY name;
COMMIT;
