#!/usr/bin/env bash
# Compiles the int8 classifier, builds the firmware for a Cortex-M3, runs it in QEMU, compares its bits with those of the
# host, runs the op suite on the same board, and measures the core. Needs a toolchain with the sources of core (Debian:
# rustc-web cargo-web rust-web-src), binutils-arm-none-eabi and qemu-system-arm.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)
target_dir=${CARGO_TARGET_DIR:-$root/target}
out=$target_dir/firmware
mkdir -p "$out"

(cd "$root" && cargo build --quiet -p serinette-cli)
blob=$out/classifier.srn
"$target_dir/debug/serinette" compile "$root/models/fashion/fashion_int8.onnx" -o "$blob" \
  --bound batch=1 --hint "$root/models/fashion/hint.json" --profile mcu

# The toolchain beside cargo's own; both share the registry.
bare() { RUSTC_BOOTSTRAP=1 PATH=/usr/bin:$PATH CARGO_TARGET_DIR=$out SERINETTE_BLOB=$blob /usr/bin/cargo "$@"; }

bare build --quiet --release --features classifier --target thumbv7m-none-eabi --bin classifier
image=$out/thumbv7m-none-eabi/release/classifier
arm-none-eabi-size "$image"
timeout 120 qemu-system-arm -M lm3s6965evb -nographic -monitor none -serial none \
  -semihosting-config enable=on,target=native -kernel "$image" 2>/dev/null | tee "$out/board.txt"

(cd "$root" && cargo run --quiet --example checksum -- "$blob" models/fashion/samples/ankle_boot_0.png) \
  | tee "$out/host.txt"
board=$(grep -o 'checksum [0-9a-f]*' "$out/board.txt")
host=$(grep -o 'checksum [0-9a-f]*' "$out/host.txt" | sort -u)
if [ "$board" != "$host" ]; then
  echo "the board's bits differ: $board, other devices: $host" >&2
  exit 1
fi

# The op suite: the host writes the cases, a board with the same processor and more flash runs those that fit into the same
# RAM, the host judges the results.
suite() { (cd "$root" && cargo run --quiet -p serinette-op-suite --example board -- "$@"); }
suite vectors "$out/suite.vectors"
SERINETTE_MEMORY=mps2_an385.x bare build --quiet --release --features suite --target thumbv7m-none-eabi --bin suite
image=$out/thumbv7m-none-eabi/release/suite
arm-none-eabi-size "$image"
# The board opens its files in the directory where the emulator runs.
(cd "$out" && rm -f suite.results && timeout 300 qemu-system-arm -M mps2-an385 -nographic -monitor none -serial none \
  -semihosting-config enable=on,target=native -kernel "$image" 2>/dev/null)
suite check "$out/suite.results" examples/firmware/not_run.txt

# The size of the core: the difference of two images, optimised for size.
for bin in size_empty size_core size_verify; do
  bare build --quiet --profile size --features classifier --target thumbv7em-none-eabi --bin $bin
done
text() { arm-none-eabi-size -A "$out/thumbv7em-none-eabi/size/$1" | awk '$1 == ".text" { print $2 }'; }
empty=$(text size_empty)
core=$(($(text size_core) - empty))
verify=$(($(text size_verify) - empty))
echo "core .text $core bytes (limit 12288), with verifier and binding $verify bytes (limit 40960)"
[ "$core" -le 12288 ] && [ "$verify" -le 40960 ]
