//! Bearer tokens: who shows one of them may ask. They come from a file, one a line, and are kept as hashes only, so that
//! neither a log nor a dump of memory shows one. Never says which token was shown, nor how near it came.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};

use hyper::header::{AUTHORIZATION, HeaderMap};
use subtle::{Choice, ConstantTimeEq};
use tracing::{info, warn};

use crate::limits::{TOKEN_BYTES_ADVISED, TOKEN_BYTES_MAX, TOKENS_MAX};
use crate::secret_file::{self, Exposed, SecretFileError};
use crate::wire::problem::Denial;

/// Why there are no tokens.
#[derive(Debug)]
pub enum TokensError {
    /// The file is of no use.
    File(SecretFileError),
    /// There is none in it.
    None(PathBuf),
    /// There are too many in it.
    TooMany(PathBuf),
    /// A line is not a token. It is named by its number: its text is a secret.
    Malformed {
        /// Which file.
        path: PathBuf,
        /// Which line of it, counted from 1.
        line: usize,
    },
}

impl fmt::Display for TokensError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TokensError::File(error) => error.fmt(f),
            TokensError::None(path) => write!(
                f,
                "{} has no token: put one on a line of its own, for instance from `openssl rand -hex 32`",
                path.display()
            ),
            TokensError::TooMany(path) => {
                write!(f, "{} has more than {TOKENS_MAX} tokens", path.display())
            }
            TokensError::Malformed { path, line } => write!(
                f,
                "{}: line {line} is not a token: visible ASCII without blanks, at most {TOKEN_BYTES_MAX} characters",
                path.display()
            ),
        }
    }
}

impl std::error::Error for TokensError {}

/// The hashes of the tokens that open the door.
#[derive(Clone, PartialEq, Eq)]
pub struct Tokens(Vec<[u8; blake3::OUT_LEN]>);

impl fmt::Debug for Tokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tokens({})", self.0.len())
    }
}

impl Tokens {
    /// Reads a file: one token a line. Empty lines, and what follows a `#` at the beginning of a line or after a blank,
    /// are left out. Warns of what is unwise.
    pub fn read(path: &Path) -> Result<Tokens, TokensError> {
        let (bytes, Exposed(exposed)) = secret_file::read(path).map_err(TokensError::File)?;
        let mut tokens = Vec::new();
        let mut short = false;
        for token in tokens_of(path, &bytes) {
            let token = token?;
            short |= token.len() < TOKEN_BYTES_ADVISED;
            tokens.push(*blake3::hash(token.as_bytes()).as_bytes());
        }
        match tokens.len() {
            0 => return Err(TokensError::None(path.to_owned())),
            1..=TOKENS_MAX => {}
            _ => return Err(TokensError::TooMany(path.to_owned())),
        }
        let path = path.display();
        if exposed {
            warn!("everybody on this machine may read or change the token file {path}: chmod 600 {path}");
        }
        if short {
            warn!("a token in {path} has fewer than {TOKEN_BYTES_ADVISED} characters and may be guessed");
        }
        Ok(Tokens(tokens))
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.0.len()
    }

    /// Whether this is one of them. Takes as long for a near miss as for a far one, and for the first as for the last.
    pub fn admit(&self, shown: &[u8]) -> bool {
        let shown = blake3::hash(shown);
        let none = Choice::from(0);
        self.0.iter().fold(none, |found, token| found | token.ct_eq(shown.as_bytes())).into()
    }
}

/// The first token of such a file, for a client to show.
pub fn first_token(path: &Path) -> Result<String, TokensError> {
    let (bytes, _) = secret_file::read(path).map_err(TokensError::File)?;
    let first = tokens_of(path, &bytes).next();
    first.unwrap_or_else(|| Err(TokensError::None(path.to_owned()))).map(str::to_owned)
}

fn tokens_of<'a>(path: &'a Path, bytes: &'a [u8]) -> impl Iterator<Item = Result<&'a str, TokensError>> {
    let lines = bytes.split(|byte| *byte == b'\n').enumerate();
    lines
        .map(|(at, line)| (at, without_comment(line).trim_ascii()))
        .filter(|(_, token)| !token.is_empty())
        .map(|(at, token)| {
            let token = str::from_utf8(token).ok().filter(|token| {
                token.len() <= TOKEN_BYTES_MAX && token.bytes().all(|byte| byte.is_ascii_graphic())
            });
            token.ok_or_else(|| TokensError::Malformed { path: path.to_owned(), line: at + 1 })
        })
}

fn without_comment(line: &[u8]) -> &[u8] {
    let mark =
        (0..line.len()).find(|&at| line[at] == b'#' && (at == 0 || line[at - 1].is_ascii_whitespace()));
    &line[..mark.unwrap_or(line.len())]
}

/// Whether a token is asked for, and which ones there are now.
#[derive(Debug, Default)]
pub struct Auth(Option<FromFile>);

#[derive(Debug)]
struct FromFile {
    path: PathBuf,
    tokens: RwLock<Arc<Tokens>>,
}

impl Auth {
    /// Everybody who gets here may ask.
    pub fn none() -> Auth {
        Auth(None)
    }

    /// Whoever shows a token of this file may ask.
    pub fn from_file(path: &Path) -> Result<Auth, TokensError> {
        let tokens = RwLock::new(Arc::new(Tokens::read(path)?));
        Ok(Auth(Some(FromFile { path: path.to_owned(), tokens })))
    }

    /// Reads the file again. If it is no longer of use, the old tokens stay.
    pub fn reload(&self) -> Result<(), TokensError> {
        let Some(FromFile { path, tokens }) = &self.0 else { return Ok(()) };
        let new = Arc::new(Tokens::read(path)?);
        info!("took {} from {}", counted(new.count()), path.display());
        *tokens.write().unwrap_or_else(PoisonError::into_inner) = new;
        Ok(())
    }

    /// Lets a request pass that shows a token, or that needs none.
    pub fn judge(&self, path: &str, headers: &HeaderMap) -> Result<(), Denial> {
        let Some(FromFile { tokens, .. }) = &self.0 else { return Ok(()) };
        if is_open(path) {
            return Ok(());
        }
        let mut lines = headers.get_all(AUTHORIZATION).iter();
        let shown = match (lines.next(), lines.next()) {
            (Some(line), None) => bearer(line.as_bytes()),
            _ => None,
        };
        let Some(shown) = shown else { return Err(Denial::Unauthenticated { shown: false }) };
        let tokens = Arc::clone(&tokens.read().unwrap_or_else(PoisonError::into_inner));
        match tokens.admit(shown) {
            true => Ok(()),
            false => Err(Denial::Unauthenticated { shown: true }),
        }
    }
}

/// What probes ask, who have no token: it tells nothing but whether the server lives.
fn is_open(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz" | "/grpc.health.v1.Health/Check" | "/grpc.health.v1.Health/Watch")
}

/// The token of an `Authorization` line, if it has one.
fn bearer(line: &[u8]) -> Option<&[u8]> {
    let (scheme, token) = line.split_at_checked("Bearer ".len())?;
    let token = token.trim_ascii();
    (scheme.eq_ignore_ascii_case(b"Bearer ") && !token.is_empty()).then_some(token)
}

fn counted(tokens: usize) -> String {
    match tokens {
        1 => "1 token".to_owned(),
        tokens => format!("{tokens} tokens"),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use hyper::header::HeaderValue;

    use super::*;

    fn file(text: &[u8]) -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("tokens");
        fs::write(&path, text).unwrap();
        (folder, path)
    }

    #[test]
    fn a_file_has_one_token_a_line() {
        let (_folder, path) =
            file(b"# ours\n\n  alpha-token-000001  \r\nbeta#token=000002 # for backups\n\t\n#gamma\n");
        let tokens = Tokens::read(&path).unwrap();
        assert_eq!(tokens.count(), 2);
        assert_eq!(first_token(&path).unwrap(), "alpha-token-000001");
        for token in ["alpha-token-000001", "beta#token=000002"] {
            assert!(tokens.admit(token.as_bytes()));
        }
        for other in ["", "alpha-token-00000", "alpha-token-0000011", "gamma", "# ours", "for", "backups"] {
            assert!(!tokens.admit(other.as_bytes()), "{other}");
        }
    }

    #[test]
    fn what_is_wrong_is_named_by_its_line_and_not_shown() {
        for (text, line) in [(&b"good\nse cret"[..], 2), (b"secr\xff", 1), (b"se\0cret", 1)] {
            let (_folder, path) = file(text);
            let error = Tokens::read(&path).unwrap_err().to_string();
            assert!(error.contains(&format!("line {line}")) && !error.contains("cret"), "{error}");
        }
        let (_folder, path) = file(&[b'x'; TOKEN_BYTES_MAX + 1]);
        assert!(matches!(Tokens::read(&path), Err(TokensError::Malformed { line: 1, .. })));
        let (_folder, path) = file(b"# nothing\n\n");
        assert!(matches!(first_token(&path), Err(TokensError::None(_))));
        assert!(matches!(Tokens::read(&path), Err(TokensError::None(_))));
        let (_folder, path) = file("token\n".repeat(TOKENS_MAX + 1).as_bytes());
        assert!(matches!(Tokens::read(&path), Err(TokensError::TooMany(_))));
        assert!(matches!(Tokens::read(Path::new("/nowhere")), Err(TokensError::File(_))));
    }

    #[test]
    fn who_shows_a_token_passes() {
        let (_folder, path) = file(b"open-sesame-000001");
        let auth = Auth::from_file(&path).unwrap();
        let judge = |path: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append(AUTHORIZATION, HeaderValue::from_str(line).unwrap());
            }
            auth.judge(path, &headers)
        };
        for line in ["Bearer open-sesame-000001", "bearer open-sesame-000001", "BEARER   open-sesame-000001"]
        {
            assert_eq!(judge("/v1/locks", &[line]), Ok(()), "{line}");
        }
        let missing = Err(Denial::Unauthenticated { shown: false });
        let wrong = Err(Denial::Unauthenticated { shown: true });
        assert_eq!(judge("/v1/locks", &[]), missing);
        let right = "Bearer open-sesame-000001";
        assert_eq!(judge("/v1/locks", &[right, right]), missing, "one header, not two");
        for line in ["", "Bearer", "Bearer ", "Basic open-sesame-000001", "open-sesame-000001", "Bearerx y"] {
            assert_eq!(judge("/v1/locks", &[line]), missing, "{line}");
        }
        for line in ["Bearer open-sesame-000002", "Bearer open-sesame-000001 x", "Bearer x"] {
            assert_eq!(judge("/metrics", &[line]), wrong, "{line}");
        }
        for path in ["/healthz", "/readyz", "/grpc.health.v1.Health/Check"] {
            assert_eq!(judge(path, &[]), Ok(()), "{path}");
        }
        for path in ["/", "/version", "/metrics", "/healthz/", "/healthz/../v1/locks", "//healthz"] {
            assert_eq!(judge(path, &[]), missing, "{path}");
        }
        assert_eq!(Auth::none().judge("/v1/locks", &HeaderMap::new()), Ok(()));
    }

    #[test]
    fn a_bad_file_leaves_the_old_tokens() {
        let (_folder, path) = file(b"first-token-000001");
        let auth = Auth::from_file(&path).unwrap();
        let admits = |token: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_str(&format!("Bearer {token}")).unwrap());
            auth.judge("/", &headers).is_ok()
        };
        fs::write(&path, "").unwrap();
        assert!(auth.reload().is_err() && admits("first-token-000001"));
        fs::write(&path, "second-token-00001").unwrap();
        auth.reload().unwrap();
        assert!(admits("second-token-00001") && !admits("first-token-000001"));
    }
}
