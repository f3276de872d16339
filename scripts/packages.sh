# The Debian packages that each command needs; sourced by scripts/test,
# scripts/quickstart, scripts/test-fresh and make nightly.
#
# Installing Debian's nginx starts a server on port 80 at once.  If nginx was
# not installed before, a temporary policy-rc.d keeps it from starting.  A
# policy-rc.d of the operator is never changed.

PACKAGES_BUILD="gcc libc6-dev linux-libc-dev make nginx nginx-dev libssl-dev
    libpcre2-dev libseccomp-dev libcgroup-dev libjansson-dev libpsl-dev"

PACKAGES_STORY="python3 python3-pandas python3-openpyxl openssl
    ca-certificates"

PACKAGES_TEST="libcmocka-dev perl libio-socket-ssl-perl libjson-perl curl
    git jq openssl ca-certificates python3 bubblewrap procps util-linux
    iproute2 python3-pandas python3-openpyxl cpio qemu-system-x86 crun strace
    man-db fontconfig python3-matplotlib python3-numpy xz-utils make"

# the clients that the tests run in a box
PACKAGES_TEST="$PACKAGES_TEST wget python3-pip python3-requests python3-httpx
    libwww-perl liblwp-protocol-https-perl golang-go"

# Programs that the tests run in a box and that may be installed from elsewhere
# than Debian, as "program:package".  The package is installed only if the
# program is missing: Chromium's takes half a gigabyte.
PROGRAMS_TEST="chromium:chromium node:nodejs npm:npm javac:default-jdk-headless"

# t/vm makes virtual machines in which systemd and a user's bus run; only root
# can make their images
PACKAGES_VM="systemd dbus dbus-user-session"

# make lint
PACKAGES_LINT="clang-tidy cppcheck"

# make nightly
PACKAGES_NIGHTLY="clang"

# what make bench compares with; its rows say "not installed" without them

PACKAGES_BENCH="bubblewrap crun runc firejail"

# packages_missing LIST: prints those of the packages that are not installed
packages_missing() {
    for package in $1; do
        dpkg-query -W -f '${Status}' "$package" 2> /dev/null \
            | grep -q '^install ok installed$' || printf ' %s' "$package"
    done
}

# packages_of PROGRAMS: prints the packages of the programs that are missing
packages_of() {
    for program in $1; do
        command -v "${program%:*}" > /dev/null || printf ' %s' "${program#*:}"
    done
}

# packages_need LIST: as root, installs the packages that are missing; as an
# ordinary user, prints the command that does, and returns 1
packages_need() {
    missing=$(packages_missing "$1")

    [ -n "$missing" ] || return 0

    if [ "$(id -u)" -ne 0 ]; then
        echo "These packages are missing.  Install them with:" >&2
        echo "    sudo apt-get install --no-install-recommends$missing" >&2
        return 1
    fi

    echo "installing:$missing"

    rcd=/usr/sbin/policy-rc.d
    own_rcd=

    case " $missing " in
        *" nginx "*)
            if [ ! -e $rcd ] && [ ! -x /usr/sbin/nginx ]; then
                own_rcd=$rcd
                printf '#!/bin/sh\n[ "$1" = nginx ] && exit 101\nexit 0\n' \
                    > $rcd
                chmod 755 $rcd
                trap 'rm -f "$own_rcd"; exit 1' HUP INT TERM
            fi
        ;;
    esac

    packages_apt $missing
    packages_status=$?

    if [ -n "$own_rcd" ]; then
        rm -f "$own_rcd"
        trap - HUP INT TERM
    fi

    return $packages_status
}

packages_apt() {
    DEBIAN_FRONTEND=noninteractive
    export DEBIAN_FRONTEND

    apt-get update -qq < /dev/null \
        && apt-get install -y -qq --no-install-recommends "$@" \
               < /dev/null > "${TMPDIR:-/tmp}/agent-apt.$$" 2>&1

    apt_status=$?
    [ $apt_status -eq 0 ] || cat "${TMPDIR:-/tmp}/agent-apt.$$" >&2
    rm -f "${TMPDIR:-/tmp}/agent-apt.$$"

    return $apt_status
}
