//! Whose a certificate is, and until when.

use model::{Code, Failure, civil_date};
use rustls::pki_types::CertificateDer;
use x509_cert::Certificate;
use x509_cert::der::Decode;
use x509_cert::der::asn1::{Ia5StringRef, PrintableStringRef, Utf8StringRef};
use x509_cert::der::oid::db::rfc4519::COMMON_NAME;
use x509_cert::ext::pkix::SubjectAltName;
use x509_cert::ext::pkix::name::GeneralName;

const DAY_S: i64 = 24 * 60 * 60;

/// From so many days before its end on a certificate is warned of.
const WARNING_DAYS: i64 = 30;

/// The place in a certificate that names a user.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NameKind {
    /// A URI among the alternative names.
    SanUri,
    /// A DNS name among the alternative names.
    SanDns,
    /// An address of mail among the alternative names.
    SanEmail,
    /// The common name of the subject.
    #[default]
    Cn,
}

/// All names of this kind, as they are spelled.
pub fn names(certificate: &CertificateDer<'_>, kind: NameKind) -> Result<Vec<String>, Failure> {
    let certificate = decoded(certificate)?;
    let parts = &certificate.tbs_certificate;
    if kind == NameKind::Cn {
        let attributes = parts.subject.0.iter().flat_map(|relative| relative.0.iter());
        let common = attributes.filter(|attribute| attribute.oid == COMMON_NAME);
        return Ok(common.filter_map(|attribute| text(&attribute.value)).collect());
    }
    let Some((_, alternatives)) = parts.get::<SubjectAltName>().map_err(unreadable)? else {
        return Ok(Vec::new());
    };
    let name = |name: &GeneralName| match (kind, name) {
        (NameKind::SanUri, GeneralName::UniformResourceIdentifier(name))
        | (NameKind::SanDns, GeneralName::DnsName(name))
        | (NameKind::SanEmail, GeneralName::Rfc822Name(name)) => Some(name.to_string()),
        _ => None,
    };
    Ok(alternatives.0.iter().filter_map(name).collect())
}

fn text(value: &x509_cert::der::Any) -> Option<String> {
    let utf8 = value.decode_as::<Utf8StringRef<'_>>().ok().map(|text| text.as_str().to_owned());
    utf8.or_else(|| {
        value.decode_as::<PrintableStringRef<'_>>().ok().map(|text| text.as_str().to_owned())
    })
    .or_else(|| value.decode_as::<Ia5StringRef<'_>>().ok().map(|text| text.as_str().to_owned()))
}

/// The second since 1970 after which the certificate is not valid any more.
pub fn ends_unix_s(certificate: &CertificateDer<'_>) -> Result<i64, Failure> {
    let ends = decoded(certificate)?.tbs_certificate.validity.not_after;
    Ok(i64::try_from(ends.to_unix_duration().as_secs()).unwrap_or(i64::MAX))
}

/// What to say of `what`, a certificate that ends then, if it is soon enough to be said.
pub fn ending(what: &str, ends_unix_s: i64, now_unix_s: i64) -> Option<Failure> {
    let days = (ends_unix_s - now_unix_s).div_euclid(DAY_S);
    let (year, month, day) = civil_date(ends_unix_s.div_euclid(DAY_S));
    let date = format!("{year}-{month:02}-{day:02}");
    let message = match days {
        i64::MIN..0 => format!("{what} has ended on {date}"),
        0..WARNING_DAYS => format!("{what} ends on {date}"),
        _ => return None,
    };
    Some(Failure::new(Code::CertificateEnding, message))
}

fn decoded(certificate: &CertificateDer<'_>) -> Result<Certificate, Failure> {
    Certificate::from_der(certificate).map_err(unreadable)
}

fn unreadable(error: x509_cert::der::Error) -> Failure {
    Failure::new(Code::CertificateUnusable, "a certificate cannot be read").source(error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rcgen::{CertificateParams, DnType, KeyPair, SanType};

    #[test]
    fn a_certificate_has_names_of_each_kind_and_an_end() {
        let mut params = CertificateParams::new(vec!["till-7.example".to_owned()]).unwrap();
        params.distinguished_name.push(DnType::CommonName, "Änn");
        params.subject_alt_names.push(SanType::Rfc822Name("ann@example.org".try_into().unwrap()));
        params.subject_alt_names.push(SanType::URI("spiffe://example/ann".try_into().unwrap()));
        params.not_after = rcgen::date_time_ymd(2031, 1, 2);
        let key = KeyPair::generate().unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let check = |kind, name| {
            assert_eq!(names(certificate.der(), kind).unwrap(), [name], "{kind:?}");
        };
        check(NameKind::SanUri, "spiffe://example/ann");
        check(NameKind::SanDns, "till-7.example");
        check(NameKind::SanEmail, "ann@example.org");
        check(NameKind::Cn, "Änn");
        assert_eq!(ends_unix_s(certificate.der()).unwrap(), 1_925_078_400);
        let bare = CertificateParams::default().self_signed(&key).unwrap();
        assert!(names(bare.der(), NameKind::SanUri).unwrap().is_empty());
        assert!(ending("it", 1_925_078_400, 1_925_078_400 - 31 * DAY_S).is_none());
        let soon = ending("it", 1_925_078_400, 1_925_078_400 - 29 * DAY_S).unwrap();
        assert!(soon.message().ends_with("ends on 2031-01-02"), "{soon}");
        let over = ending("it", 1_925_078_400, 1_925_078_401).unwrap();
        assert!(over.message().contains("has ended"), "{over}");
        let rubbish = CertificateDer::from(vec![1, 2, 3]);
        assert_eq!(names(&rubbish, NameKind::Cn).unwrap_err().code(), Code::CertificateUnusable);
    }
}
