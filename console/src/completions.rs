//! `duly completions`.

use clap::{Args, CommandFactory as _, ValueEnum};
use clap_complete::generate;

use crate::{Arguments, DONE, Output};

/// Print the script with which a shell completes this command
#[derive(Debug, Args)]
#[command(after_help = "\
It asks no server.

examples:
  echo 'source <(duly completions bash)' >> ~/.bashrc
  echo 'source <(duly completions zsh)' >> ~/.zshrc
  duly completions fish > ~/.config/fish/completions/duly.fish")]
pub(crate) struct Completions {
    /// For which one
    #[arg(value_enum)]
    shell: Shell,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Shell {
    Bash,
    Zsh,
    Fish,
}

impl Completions {
    pub(crate) fn run(&self, output: &mut Output<'_>) -> u8 {
        let shell = match self.shell {
            Shell::Bash => clap_complete::Shell::Bash,
            Shell::Zsh => clap_complete::Shell::Zsh,
            Shell::Fish => clap_complete::Shell::Fish,
        };
        // Written at once: the generator panics where it cannot write.
        let mut script = Vec::new();
        generate(shell, &mut Arguments::command(), "duly", &mut script);
        _ = output.out.write_all(&script);
        DONE
    }
}
