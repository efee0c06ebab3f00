//! What becomes of an entry of the table of codes.

use super::Code;

macro_rules! codes {
    ($(
        $(#[doc = $doc:literal])+
        $number:literal $name:ident $actor:ident $retry:literal $hint:literal;
    )+) => {
        /// A stable error code.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u16)]
        pub enum Code { $($(#[doc = $doc])+ $name = $number,)+ }

        impl Code {
            /// Every code, in order.
            pub const ALL: &'static [Code] = &[$(Code::$name,)+];

            /// The number after the `E`.
            pub fn number(self) -> u16 { self as u16 }

            /// The code with this number.
            pub fn from_number(number: u16) -> Option<Code> {
                match number { $($number => Some(Code::$name),)+ _ => None }
            }

            /// Who must act.
            pub fn actor(self) -> Actor { match self { $(Code::$name => Actor::$actor,)+ } }

            /// Whether the same request may succeed later without any other change.
            pub fn retry(self) -> bool { match self { $(Code::$name => $retry,)+ } }

            /// What to do, unless the failure has its own hint.
            pub fn hint(self) -> &'static str { match self { $(Code::$name => $hint,)+ } }

            /// The page of the manual.
            pub fn manual(self) -> &'static str {
                match self { $(Code::$name => concat!($($doc, "\n",)+),)+ }
            }

            /// The name used in Rust, which is also its heading.
            pub fn name(self) -> &'static str {
                match self { $(Code::$name => stringify!($name),)+ }
            }
        }
    };
}

pub(super) use codes;

impl std::fmt::Display for Code {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "E{}", self.number())
    }
}
