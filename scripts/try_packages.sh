#!/usr/bin/env bash
# Tries what is in build/packages as one who has just fetched it, in fresh roots of a release of Debian:
#   scripts/try_packages.sh trixie
# As root, with debootstrap. The tar file runs where there is nothing but the C library, not even a shell, then in Debian's
# least system, from two directories, and beside the system's libcurl and libarchive. The .deb files of that release are
# installed, used as the README says, built upon from C and from C++, and removed.
set -euo pipefail
cd "$(dirname "$0")/.."
suite="${1:?usage: scripts/try_packages.sh SUITE, for example trixie}"
. scripts/debian_root.sh
packages="$PWD/build/packages" root="$roots/$suite-try" bare="$roots/bare"
say() { printf '\n== %s\n' "$*"; }

# A first use, by a program that $1 names.
first_use='
  first_use() {
    rm -rf stories.txt run
    "$1" version
    "$1" data stories --out stories.txt --bytes 100000
    "$1" train --data stories.txt --preset char-cpu --max-steps 20 --out run --progress none 2>&1 | tail -n 3
    "$1" generate --model run --prompt "One day" --max-tokens 40
    "$1" inspect attention --model run --text "One day, a fox" --svg heads.svg >/dev/null
  }'
# The examples in C by what pkg-config says.
c_examples='
  c_examples() {
    for one in tokenize write train; do cc -std=c99 -Wall -Werror "$one.c" $(pkg-config --cflags --libs folio) -o "$one"; done
    ./tokenize run stories.txt | tail -n 1
    ./write run "One day"
    ./train stories.txt train.c taught | tail -n 1
  }'

for file in "$packages"/folio-*-linux-"$(uname -m)".tar.gz; do
  [[ -e "$file" ]] || continue
  say "$(basename "$file") with the C library of $suite alone"
  new_root "$suite" "$suite-try"
  rm -rf "$bare"
  mkdir -p "$bare"/{folio,proc,tmp,lib,lib64}
  tar --extract --file "$file" --strip-components 1 --directory "$bare/folio"
  cp -L "$root"/lib64/ld-linux-*.so.* "$bare/lib64/"
  cp -L "$root"/usr/lib/*/lib{c,m}.so.6 "$bare/lib/"
  alone() {
    unshare --mount --pid --fork --kill-child env -i bash -euc 'mount -t proc proc "$0/proc"; exec chroot "$0" /folio/bin/folio "$@"' \
      "$bare" "$@"
  }
  alone version
  alone data stories --out /tmp/stories.txt --bytes 100000
  alone train --data /tmp/stories.txt --preset char-cpu --max-steps 20 --out /tmp/run --progress none 2>&1 | tail -n 1
  alone generate --model /tmp/run --prompt "One day" --max-tokens 40
  rm -rf "$bare"

  say "$(basename "$file") in the least system of $suite"
  cp "$file" examples/c/*.c "$root/folio/"
  inside "$suite-try" "$first_use $c_examples"'
    mkdir -p /opt/folio && tar -x -f folio-*.tar.gz --strip-components 1 -C /opt/folio
    first_use /opt/folio/bin/folio
    mv /opt/folio "/srv/another place"
    first_use "/srv/another place/bin/folio"
    if ldd "/srv/another place/bin/folio" "/srv/another place/lib/libfolio.so" | grep "=>" |
      grep -vE "another place|lib(c|m)\.so\.6"; then echo "is outside of the tar file" >&2; exit 1; fi
    mv "/srv/another place" /opt/folio
    apt-get update -q >/dev/null
    apt-get install --no-install-recommends -y -q bzip2 libcurl4 libarchive13 gcc libc6-dev pkgconf >/dev/null
    bzip2 --keep stories.txt
    /opt/folio/bin/folio data prepare stories.txt.bz2 --out prepared
    if HTTPS_PROXY=http://127.0.0.1:9 FOLIO_HOME=home /opt/folio/bin/folio tokenizer fetch gpt2 2>fetched; then exit 1; fi
    if ! grep "127.0.0.1" fetched; then cat fetched; exit 1; fi
    export PKG_CONFIG_PATH=/opt/folio/lib/pkgconfig LD_LIBRARY_PATH=/opt/folio/lib
    c_examples'
done

new_root "$suite" "$suite-try"
release="$(. "$root/etc/os-release" && echo "$VERSION_ID")"
if compgen -G "$packages/folio_*~deb$release"_*.deb >/dev/null; then
  say "the .deb files of Debian $release"
  cp "$packages"/*~deb"$release"_*.deb examples/c/*.c "$root/folio/"
  cp -r tests/install "$root/folio/consumer"
  inside "$suite-try" "$first_use $c_examples"'
    apt-get update -q >/dev/null
    # The least system leaves documents out.
    rm -f /etc/dpkg/dpkg.cfg.d/*
    apt-get install --no-install-recommends -y -q gcc libc6-dev pkgconf g++ cmake ninja-build man-db bash-completion >/dev/null
    apt-get install -y -q ./*.deb >/dev/null  # with what is recommended, among it what C++ programs are linked with
    first_use folio
    man --warnings folio-train 2>&1 >manual | tee problems
    ! [ -s problems ] && grep -c . manual
    bash -euc ". /usr/share/bash-completion/bash_completion; . /usr/share/bash-completion/completions/folio; complete -p folio"
    ls /usr/share/zsh/vendor-completions/_folio /usr/share/fish/vendor_completions.d/folio.fish /lib/systemd/system/folio.service
    c_examples
    cmake -S consumer/tokens -B tokens -G Ninja >/dev/null && cmake --build tokens
    tokens/tokens run/best "One day"
    cmake -S consumer -B consumed -G Ninja >/dev/null && cmake --build consumed --target model
    consumed/model run/best
    apt-get purge -y -q "folio*" "libfolio*" >/dev/null
    if find / -xdev \( -path /folio -o -path /var/cache \) -prune -o -name "*folio*" -print | grep -v /proc/; then echo "was left behind" >&2; exit 1; fi'
fi
rm -rf "$root"
say "everything was well"
