# A template: `cargo xtask release --dry-run templates` fills in what stands between two @.
class Navlock < Formula
  desc "Run commands under named locks that all processes of a user share"
  homepage "https://github.com/navlock/navlock"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_linux do
    on_intel do
      url "https://github.com/navlock/navlock/releases/download/v@VERSION@/navlock-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256@"
    end
  end

  on_macos do
    # Built from what crates.io has, until a release has an archive for macOS.
    url "https://static.crates.io/crates/navlock-cli/navlock-cli-@VERSION@.crate"
    depends_on "rust" => :build
  end

  def install
    if OS.mac?
      system "cargo", "install", *std_cargo_args
      generate_completions_from_executable(bin/"navlock", "completions")
      (buildpath/"man").mkpath
      system bin/"navlock", "man", "--output", buildpath/"man"
      man1.install Dir["man/*.1"]
    else
      bin.install "bin/navlock"
      man1.install Dir["share/man/man1/*.1"]
      bash_completion.install "share/bash-completion/completions/navlock"
      zsh_completion.install "share/zsh/site-functions/_navlock"
      fish_completion.install "share/fish/vendor_completions.d/navlock.fish"
    end
  end

  test do
    ENV["NAVLOCK_SOCKET"] = testpath/"sock"
    assert_match "held", shell_output("#{bin}/navlock run db -- #{bin}/navlock query")
    system bin/"navlock", "daemon", "stop"
  end
end
