# Whether an ordinary user can have boxes on this host; sourced by
# scripts/quickstart and scripts/test.

# Whether a launcher of this user could make a group for a box: in the
# directory that setup-host made (cgroup v1), or where this process runs (v2).
# The launcher checks this itself; here it is checked before the build.
has_cgroup() {
    own=$(sed -n 's/^0:://p' /proc/self/cgroup)

    while read -r what mount type options rest; do
        case $type:,$options, in
            cgroup:*,memory,*)
                [ ! -w "$mount/agent-jail/$(id -u)" ] || return 0 ;;
            cgroup2:*)
                for path in "$own" "${own%/*}"; do
                    [ ! -w "$mount$path/cgroup.procs" ] || return 0
                done ;;
        esac
    done < /proc/mounts

    return 1
}

# need_cgroup TREE COMMAND: 0, or prints what to run before that command
need_cgroup() {
    [ "$(id -u)" -ne 0 ] && ! has_cgroup || return 0

    user=$(id -un 2> /dev/null) || user=$(id -u)
    echo "An ordinary user needs a cgroup for the boxes.  Run:" >&2

    if [ ! -e /sys/fs/cgroup/cgroup.controllers ]; then
        echo "    sudo $1/scripts/setup-host $user" >&2
    elif [ -d /run/systemd/system ]; then
        echo "    sudo $1/scripts/setup-host $user" >&2
        echo "    systemd-run --user --scope -p Delegate=yes -- $2" >&2
    else
        # the launcher itself must run in that cgroup, so this shell moves there
        echo "    sudo $1/scripts/setup-host $user \$\$" >&2
    fi

    return 1
}
