//! `leasehold completions`: what a shell needs to complete this program's commands and options, made from their definition.

use clap::{Args, ValueEnum};
use clap_complete::{Shell, generate};

use crate::printing::print;
use crate::status::Failure;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  leasehold completions bash > /etc/bash_completion.d/leasehold
  leasehold completions zsh > \"${fpath[1]}/_leasehold\"
  leasehold completions fish > ~/.config/fish/completions/leasehold.fish")]
pub struct Completions {
    /// The shell
    shell: For,
}

#[derive(Clone, Copy, ValueEnum)]
enum For {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub fn run(self, mut definition: clap::Command) -> Result<(), Failure> {
        let shell = match self.shell {
            For::Bash => Shell::Bash,
            For::Zsh => Shell::Zsh,
            For::Fish => Shell::Fish,
        };
        let mut script = Vec::new();
        generate(shell, &mut definition, "leasehold", &mut script);
        print(&String::from_utf8_lossy(&script)).map(drop)
    }
}
