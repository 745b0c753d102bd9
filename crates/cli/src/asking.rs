//! What every command that asks a server has in common: where the server is, what opens its door, and for how long to try.
//! Knows no command, and chooses no exit status.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;

use crate::duration;

/// Where a server listens that was told nothing else.
pub const SERVER: &str = "http://127.0.0.1:7420";

/// Whom to ask, and how.
#[derive(Args, Clone, Debug)]
#[command(next_help_heading = "Asking a server")]
pub struct Asking {
    /// The server's address: http://HOST:PORT or https://HOST:PORT
    #[arg(long, value_name = "URL", env = "LEASEHOLD_SERVER", default_value = SERVER)]
    pub server: String,
    /// Show the first token of this file to the server
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_TOKEN_FILE")]
    pub token_file: Option<PathBuf>,
    /// Trust the certificates in this PEM file instead of the system's
    #[arg(long, value_name = "FILE", env = "LEASEHOLD_CA_FILE")]
    pub ca_file: Option<PathBuf>,
    /// Give up when no answer has come in this time; time in line is not counted
    #[arg(long, value_name = "DURATION", default_value = "15s", value_parser = duration::parse)]
    pub timeout: Duration,
    /// Print JSON, one object a line; what goes wrong is one on standard error
    #[arg(long)]
    pub json: bool,
}

/// Who asks.
#[derive(Args, Clone, Debug)]
pub struct Owner {
    /// Who asks, as others see it [default: user@host:pid]
    #[arg(long, value_name = "OWNER", env = "LEASEHOLD_OWNER")]
    pub owner: Option<String>,
}
