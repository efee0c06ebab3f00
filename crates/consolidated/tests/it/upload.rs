//! What the center makes of what remotes send.

mod broken_references;
mod cascades;
mod changed_columns;
mod collisions;
mod collisions_postgres;
mod echoes_postgres;
mod lost_inserts;
mod many_conflicts;
mod older_shapes;
mod orphans;
mod own_rows;
mod rules;
mod scripts;
mod shapes;
mod shortfalls_postgres;
mod taken_along;
mod triggers;
mod uploads;
mod uploads_postgres;
