# A template, which contrib/fill-in.sh fills in.
class Navlock < Formula
  desc "Run commands under named locks that all processes of a user share"
  homepage "https://github.com/navlock/navlock"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  on_macos do
    on_arm do
      url "https://github.com/navlock/navlock/releases/download/v@VERSION@/navlock-@VERSION@-aarch64-apple-darwin.tar.gz"
      sha256 "@SHA256 aarch64-apple-darwin@"
    end
    on_intel do
      url "https://github.com/navlock/navlock/releases/download/v@VERSION@/navlock-@VERSION@-x86_64-apple-darwin.tar.gz"
      sha256 "@SHA256 x86_64-apple-darwin@"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/navlock/navlock/releases/download/v@VERSION@/navlock-@VERSION@-aarch64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256 aarch64-unknown-linux-musl@"
    end
    on_intel do
      url "https://github.com/navlock/navlock/releases/download/v@VERSION@/navlock-@VERSION@-x86_64-unknown-linux-musl.tar.gz"
      sha256 "@SHA256 x86_64-unknown-linux-musl@"
    end
  end

  def install
    bin.install "bin/navlock"
    man1.install Dir["share/man/man1/*.1"]
    bash_completion.install "share/bash-completion/completions/navlock"
    zsh_completion.install "share/zsh/site-functions/_navlock"
    fish_completion.install "share/fish/vendor_completions.d/navlock.fish"
  end

  test do
    ENV["NAVLOCK_SOCKET"] = testpath/"sock"
    assert_match "held", shell_output("#{bin}/navlock run db -- #{bin}/navlock query")
    system bin/"navlock", "daemon", "stop"
  end
end
