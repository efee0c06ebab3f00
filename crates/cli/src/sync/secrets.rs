//! Token or password: the token while it is valid, the password to get the next one.

use crate::args::SyncOptions;
use client::NewPassword;
use model::{Code, Failure, UserName};
use std::io::{self, IsTerminal};
use std::path::PathBuf;
use terminal::secret;

/// What proves the user, as far as it is known yet.
pub(super) struct Secrets {
    token_file: Option<PathBuf>,
    token: Option<String>,
    password: Option<String>,
    /// The password from now on, until the server has taken it.
    new_password: Option<NewPassword>,
    /// There is a certificate that is to be shown.
    certificate: bool,
}

impl Secrets {
    /// Reads the files that the options name. Asks for no password yet. `certificate`: whether one
    /// will be shown.
    pub(super) fn read(options: &SyncOptions, certificate: bool) -> Result<Secrets, Failure> {
        let new_password = match &options.new_password_file {
            Some(path) => Some(NewPassword::new(secret::read_file(path, "new password")?)?),
            None => None,
        };
        Secrets::read_with(options, certificate, new_password)
    }

    fn read_with(
        options: &SyncOptions,
        certificate: bool,
        new_password: Option<NewPassword>,
    ) -> Result<Secrets, Failure> {
        let password = match &options.credential.password_file {
            Some(path) => Some(secret::read_file(path, "password")?),
            None => None,
        };
        // Where a password can fetch the first token, the token file need not exist yet.
        let can_fetch = password.is_some() || certificate || io::stdin().is_terminal();
        let token = match &options.credential.token_file {
            // A token changes no password.
            Some(_) if new_password.is_some() => None,
            Some(path) if path.exists() || !can_fetch => Some(secret::read_file(path, "token")?),
            _ => None,
        };
        if password.is_none() && token.is_none() && !can_fetch {
            return Err(Failure::new(Code::SecretMissing, "no password or token was given"));
        }
        let token_file = options.credential.token_file.clone();
        Ok(Secrets { token_file, token, password, new_password, certificate })
    }

    /// Reads the files of password and token again, which may hold something else by now. A
    /// password that was typed stays.
    pub(super) fn read_again(&mut self, options: &SyncOptions) -> Result<(), Failure> {
        let read = Secrets::read_with(options, self.certificate, self.new_password.clone())?;
        let password = read.password.or_else(|| self.password.take());
        *self = Secrets { password, ..read };
        Ok(())
    }

    /// The token that was not refused yet.
    pub(super) fn token(&self) -> Option<String> {
        self.token.clone()
    }

    /// Forgets the token; fails with the server's refusal where there is no password to fall
    /// back to.
    pub(super) fn token_refused(
        &mut self,
        user: &UserName,
        refusal: Failure,
    ) -> Result<(), Failure> {
        if self.password.is_none() && !self.certificate && !io::stdin().is_terminal() {
            return Err(refusal);
        }
        self.token = None;
        if self.is_certificate() {
            return Ok(());
        }
        self.password(user).map(|_| ())
    }

    /// Whether the certificate stands for the password.
    pub(super) fn is_certificate(&self) -> bool {
        self.certificate && self.password.is_none() && self.new_password.is_none()
    }

    /// The password from now on, until the server has taken it.
    pub(super) fn new_password(&self) -> Option<NewPassword> {
        self.new_password.clone()
    }

    /// The new password is the password.
    pub(super) fn password_changed(&mut self) {
        if let Some(new) = self.new_password.take() {
            self.password = Some(new.as_str().to_owned());
        }
    }

    /// The password, asked on the terminal the first time if no file holds it.
    pub(super) fn password(&mut self, user: &UserName) -> Result<String, Failure> {
        if let Some(password) = &self.password {
            return Ok(password.clone());
        }
        let password = secret::ask(&format!("password of {user}"))?;
        Ok(self.password.insert(password).clone())
    }

    /// Uses this token from now on, and keeps it where the user wants it.
    pub(super) fn keep_token(&mut self, token: &str) -> Result<(), Failure> {
        self.token = Some(token.to_owned());
        match &self.token_file {
            Some(path) => secret::write_file(path, "token", token),
            None => Ok(()),
        }
    }
}
