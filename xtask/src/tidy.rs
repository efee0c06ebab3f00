//! The rules of the house, one file each.
//!
//! Every rule is a function from files to problems, and has a test that shows it finding one.

mod architecture;
mod circle;
mod citation;
mod column;
mod fence;
mod file_name;
mod folder;
mod header;
mod host;
mod ignored;
mod invariant;
mod leftover;
mod length;
mod link;
mod mention;
mod roadmap;
mod signature;
mod slow_start;
mod spelling;
mod type_name;

pub(crate) use citation::{Citations, NOT_YET, TESTING, heading_number};

use crate::checkout::Checkout;
use crate::problem::Problem;

/// Checks every rule and returns what it found.
pub(crate) fn check(checkout: &Checkout) -> Result<Vec<Problem>, String> {
    let mut problems = Vec::new();
    for file in &checkout.files {
        problems.extend(file_name::check(file));
        problems.extend(leftover::check(file));
        problems.extend(host::check(file));
        problems.extend(spelling::check(file));
    }
    for file in checkout.rust() {
        problems.extend(header::check(file));
        problems.extend(column::check(file));
        problems.extend(ignored::check(file));
        problems.extend(length::check_file(file));
        match syn::parse_file(&file.text) {
            Ok(syntax) => {
                problems.extend(length::check_functions(file, &syntax));
                problems.extend(architecture::check_source(file, &syntax));
                problems.extend(signature::check(file, &syntax));
                problems.extend(type_name::check(file, &syntax));
            }
            Err(error) => {
                let line = error.span().start().line;
                problems.push(Problem::at(&file.path, line, format!("does not parse: {error}")));
            }
        }
    }
    for file in checkout.markdown() {
        problems.extend(link::check(checkout, file));
        problems.extend(fence::check(file));
    }
    problems.extend(length::check_exceptions(checkout));
    problems.extend(circle::check(checkout));
    problems.extend(folder::check(checkout));
    problems.extend(slow_start::check(checkout));
    problems.extend(invariant::check(checkout));
    problems.extend(roadmap::check(checkout));
    problems.extend(architecture::check_dependencies(&checkout.root)?);
    problems.extend(host::check_commits(&checkout.root)?);
    problems.extend(Citations::read(checkout).check(checkout));
    problems.extend(crate::generate::check(checkout)?);
    Ok(problems)
}
