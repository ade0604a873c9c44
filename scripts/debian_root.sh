# Roots of releases of Debian, for scripts that need another system than this one; they source it. As root, with debootstrap.
# A root is a directory below build/roots, made of build/roots/SUITE.tar, which is downloaded once.
roots="$PWD/build/roots"
mkdir -p "$roots"
[[ "$(id -u)" -eq 0 ]] || { echo "$0: only root can enter another root; run it through sudo" >&2; exit 1; }
command -v debootstrap >/dev/null || { echo "$0: debootstrap is missing; install it" >&2; exit 1; }

# new_root SUITE NAME: a fresh one, whatever was there.
new_root() {
  if [[ ! -e "$roots/$1.tar" ]]; then
    rm -rf "$roots/$1.part"
    debootstrap --variant=minbase "$1" "$roots/$1.part" >"$roots/$1.log"
    tar --create --file "$roots/$1.tar.part" --directory "$roots/$1.part" .
    rm -r "$roots/$1.part"
    mv "$roots/$1.tar.part" "$roots/$1.tar"
  fi
  rm -rf "${roots:?}/$2"
  mkdir -p "$roots/$2/folio"
  tar --extract --file "$roots/$1.tar" --directory "$roots/$2"
  cp /etc/resolv.conf "$roots/$2/etc/resolv.conf"
}

# inside NAME COMMAND [VARIABLE=VALUE]...: runs it by sh; what it mounts goes when it ends. With SHARED=1 this checkout is
# at /folio, else whatever the root has there.
inside() {
  unshare --mount --pid --fork --kill-child env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive \
    JOBS="${JOBS:-$(nproc)}" "${@:3}" sh -euc '
      mount -t proc proc "$1/proc"
      [ -z "$3" ] || mount --bind "$3" "$1/folio"
      exec chroot "$1" sh -euc "cd /folio; $2"' - "$roots/$1" "$2" "${SHARED:+$PWD}"
}
