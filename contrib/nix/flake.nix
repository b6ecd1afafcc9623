# A template, which contrib/fill-in.sh fills in. It is for the root of the repository, where its Cargo.lock is.
{
  description = "Named locks that all processes of a user share: navlock @VERSION@";

  inputs.nixpkgs.url = "github:NixOS/nixpkgs/nixos-unstable";

  outputs = { self, nixpkgs }:
    let
      systems = [ "x86_64-linux" "aarch64-linux" "aarch64-darwin" ];
      each = make: nixpkgs.lib.genAttrs systems (system: make nixpkgs.legacyPackages.${system});
    in
    {
      packages = each (pkgs: {
        default = pkgs.rustPlatform.buildRustPackage {
          pname = "navlock";
          version = "@VERSION@";
          src = self;
          cargoLock.lockFile = ./Cargo.lock;
          buildAndTestSubdir = "crates/cli";
          buildFeatures = [ "etcd" "postgres" "tls" ];
          # They need etcd, and several users: cargo xtask test runs them.
          doCheck = false;
          nativeBuildInputs = [ pkgs.installShellFiles ];
          postInstall = ''
            mkdir man
            $out/bin/navlock man --output man
            installManPage man/*.1
            for shell in bash zsh fish; do
              $out/bin/navlock completions $shell >completion.$shell
              installShellCompletion --cmd navlock --$shell completion.$shell
            done
          '';
          meta = {
            description = "Run commands under named locks that all processes of a user share";
            homepage = "https://github.com/navlock/navlock";
            license = with pkgs.lib.licenses; [ mit asl20 ];
            mainProgram = "navlock";
          };
        };
      });
    };
}
