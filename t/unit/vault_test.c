/*
 * The vault: what its text may be, who may hold its file, and that no message
 * shows a value.
 */

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "unit.h"

#include "policy/vault_internal.h"


#define SECRET   "sk_live_0123456789abcdef"
#define OTHER    "tok-ABCDEFGHIJKLMNOPQRSTUVWXYZ"
#define NOBODY   65534


static char  dir[64];
static char  path[128];


static vault_t *
parse(const char *text, size_t n, char *err)
{
    vault_t        *vault;
    unsigned char  *exact;

    exact = malloc(n ? n : 1);
    memcpy(exact, text, n);
    err[0] = '\0';
    vault = vault_parse("the-vault", exact, n, NULL, err);
    free(exact);

    return vault;
}


static void
assert_value(const vault_t *vault, const char *name, const char *value)
{
    size_t                size, len;
    unsigned char        *packed;
    const unsigned char  *found;

    size = vault_pack(vault, NULL, 0);
    packed = malloc(size);
    assert_int_equal(vault_pack(vault, packed, size), size);

    found = vault_packed_find(packed, size, name, &len);

    if (value == NULL) {
        assert_null(found);
        assert_false(vault_has(vault, name));

    } else {
        assert_non_null(found);
        assert_int_equal(len, strlen(value));
        assert_memory_equal(found, value, len);
        assert_true(vault_has(vault, name));
    }

    free(packed);
}


static void
test_accepted(void **state)
{
    char      err[VAULT_ERROR_MAX];
    vault_t  *vault;

    static const char  text[] =
        "# tokens\n"
        "\n"
        "   \t\n"
        "api_internal = " SECRET "\n"
        "  # another\n"
        "\tgit.ro-2\t=\t  a#b=c,and'd'=='e'  \t\n"
        "_x=0123456789abcdef\n"
        "last = " OTHER;

    (void) state;

    vault = parse(text, sizeof(text) - 1, err);
    expect(vault != NULL, "%s", err);

    assert_int_equal(vault_count(vault), 4);
    assert_value(vault, "api_internal", SECRET);
    assert_value(vault, "git.ro-2", "a#b=c,and'd'=='e'");
    assert_value(vault, "_x", "0123456789abcdef");
    assert_value(vault, "last", OTHER);
    assert_value(vault, "api_interna", NULL);
    assert_value(vault, "api_internal2", NULL);
    assert_value(vault, "", NULL);
    assert_value(vault, "zzz", NULL);

    vault_free(vault);

    vault = parse("", 0, err);
    assert_non_null(vault);
    assert_int_equal(vault_count(vault), 0);
    assert_value(vault, "a", NULL);
    vault_free(vault);
}


static void
test_refused(void **state)
{
    char      err[VAULT_ERROR_MAX], line[64];
    size_t    i;
    vault_t  *vault;

    static const struct {
        const char  *text;
        size_t       n;                 /* 0: up to the NUL */
        int          line;
        const char  *entry;             /* NULL: none is named */
        const char  *says;
    } rows[] = {
        { "a = " SECRET "\r\nb = " OTHER "\r\n", 0, 1, NULL,
          "carriage return" },
        { "# x\r\na = " SECRET "\r\n", 0, 2, NULL, "carriage return" },
        { "a = " SECRET "\n\nb = " SECRET "\x01\n", 0, 3, "b",
          "control character" },
        { "a = " SECRET "\x7f\n", 0, 1, "a", "not ASCII" },
        { "a = " SECRET "\xc3\xa9\n", 0, 1, "a", "not ASCII" },
        { "a = " SECRET "\t" SECRET "\n", 0, 1, "a", "a blank" },
        { "a = " SECRET " " SECRET "\n", 0, 1, "a", "a blank" },
        { "a = " SECRET " # mine\n", 0, 1, "a", "a blank" },
        { "a = \"" SECRET "\"\n", 0, 1, "a", "in quotes" },
        { "a = '" SECRET "'\n", 0, 1, "a", "in quotes" },
        { "a = \"Bearer " SECRET "\"\n", 0, 1, "a", "in quotes" },
        { "a = Bearer " SECRET "\n", 0, 1, "a", "begins with \"Bearer\"" },
        { "a = bearer\t" SECRET "\n", 0, 1, "a", "begins with \"Bearer\"" },
        { "a=BEARER  " SECRET "\n", 0, 1, "a", "begins with \"Bearer\"" },
        { "a = Basic " SECRET "\n", 0, 1, "a", "begins with \"Basic\"" },
        { "a = token " SECRET "\n", 0, 1, "a", "begins with \"Token\"" },
        { "a = Authorization: Bearer " SECRET "\n", 0, 1, "a",
          "begins with \"Authorization:\"" },
        { "a = Authorization:" SECRET "\n", 0, 1, "a",
          "begins with \"Authorization:\"" },
        { "\n\na = " SECRET "\0" SECRET "\n", 7 + 2 * 24, 3, NULL, "NUL" },
        { "# x\0y\n", 6, 1, NULL, "NUL" },
        { "a = " SECRET "\nb = 0123456789abcde\n", 0, 2, "b",
          "shorter than 16" },
        { "a = \n", 0, 1, "a", "no value" },
        { "a =                                       \n", 0, 1, "a",
          "no value" },
        { "a=", 0, 1, "a", "no value" },
        { SECRET "\n", 0, 1, NULL, "no \"=\"" },
        { "Bearer " SECRET "\n", 0, 1, NULL, "no \"=\"" },
        { "# ok\n" SECRET " api_internal\n", 0, 2, NULL, "no \"=\"" },
        { SECRET "==\n", 0, 1, NULL, "looks like a token" },
        { SECRET " = api_internal\n", 0, 1, NULL, "looks like a token" },
        { SECRET " = api_internal_readonly\n", 0, 1, NULL,
          "looks like a token" },
        { "ghp_" OTHER " = api_internal_readonly\n", 0, 1, NULL,
          "looks like a token" },
        { "correct-horse-sk_live = api_internal\n", 0, 1, NULL,
          "shorter than 16" },
        { "api_internal_readonly = short\n", 0, 1, NULL, "shorter than 16" },
        { "= " SECRET "\n", 0, 1, NULL, "no name" },
        { "1a = " SECRET "\n", 0, 1, NULL, "does not begin with" },
        { "-a = " SECRET "\n", 0, 1, NULL, "does not begin with" },
        { ".a = " SECRET "\n", 0, 1, NULL, "does not begin with" },
        { "a b = " SECRET "\n", 0, 1, NULL, "something else than letters" },
        { "api:x = " SECRET "\n", 0, 1, NULL, "something else than letters" },
        { "\xef\xbb\xbf" "a = " SECRET "\n", 0, 1, NULL, "byte order mark" },
        { "\xff\xfe" "a\0=\0", 6, 1, NULL, "byte order mark" },
        { "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
          " = " SECRET "\n", 0, 1, NULL, "longer than 64" },
        { "b = " SECRET "\na = " SECRET "\n#\nb = " OTHER "\n", 0, 4, "b",
          "the same name as in line 1" },
        { "a = " SECRET "\na = " SECRET "\n", 0, 2, "a",
          "the same name as in line 1" },
        { "a = replace-this-with-the-token\n", 0, 1, "a", "vault.example" },
        { "a = {gcm1}AAAA\n", 0, 1, "a", "key=KEYFILE" },
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        vault = parse(rows[i].text,
                      rows[i].n ? rows[i].n : strlen(rows[i].text), err);

        expect(vault == NULL, "row %zu is accepted", i);

        (void) snprintf(line, sizeof(line), "line %d%s%s%s:", rows[i].line,
                        rows[i].entry ? ", entry \"" : "",
                        rows[i].entry ? rows[i].entry : "",
                        rows[i].entry ? "\"" : "");

        expect(strstr(err, line) != NULL, "row %zu: no \"%s\" in: %s", i,
               line, err);
        expect(strstr(err, rows[i].says) != NULL, "row %zu: no \"%s\" in: %s",
               i, rows[i].says, err);
        expect(strstr(err, "the-vault") != NULL, "row %zu: no file in: %s", i,
               err);
        expect(strstr(err, "0123456789") == NULL
               && strstr(err, "sk_live") == NULL
               && strstr(err, "ABCDEFG") == NULL,
               "row %zu shows a value: %s", i, err);
    }
}


static void
test_value_bytes(void **state)
{
    int       c;
    char      err[VAULT_ERROR_MAX], text[64];
    size_t    n, at;
    vault_t  *vault;

    static const char  good[] = "a = 0123456789abcdef0123\n";

    (void) state;

    n = sizeof(good) - 1;

    for (at = 4; at < n - 1; at++) {
        for (c = 0; c < 256; c++) {

            if (c == '\n') {
                continue;
            }

            memcpy(text, good, n);
            text[at] = (char) c;

            vault = parse(text, n, err);

            /* at an end a blank is left out */

            if ((c > 0x20 && c < 0x7f)
                || ((c == ' ' || c == '\t') && (at == 4 || at == n - 2)))
            {
                expect(vault != NULL, "byte %02x at %zu: %s", c, at, err);
            } else {
                expect(vault == NULL, "byte %02x at %zu is accepted", c, at);
            }

            vault_free(vault);
        }
    }
}


static void
test_lengths(void **state)
{
    char      err[VAULT_ERROR_MAX], *text;
    size_t    i;
    vault_t  *vault;

    static const struct {
        size_t  n;
        int     ok;
    } rows[] = {
        { 15, 0 }, { 16, 1 }, { 17, 1 }, { 4095, 1 }, { 4096, 1 },
        { 4097, 0 }, { 65536, 0 }
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        text = malloc(rows[i].n + 2);
        memcpy(text, "a=", 2);
        memset(text + 2, 'x', rows[i].n);

        vault = parse(text, rows[i].n + 2, err);
        expect((vault != NULL) == rows[i].ok, "a value of %zu bytes: %s",
               rows[i].n, err);

        vault_free(vault);
        free(text);
    }
}


static void
test_packed(void **state)
{
    int                    i, n;
    char                   err[VAULT_ERROR_MAX], name[16], value[32], *text;
    size_t                 size, len, cut, at;
    vault_t               *vault;
    unsigned char         *packed, *damaged;
    const unsigned char   *found;

    (void) state;

    text = malloc(64 * 1024);

    for (i = 0, len = 0; i < 500; i++) {
        n = sprintf(text + len, "n%d = value-of-number-%06d\n",
                    (i * 7919) % 500, (i * 7919) % 500);
        len += (size_t) n;
    }

    vault = parse(text, len, err);
    expect(vault != NULL, "%s", err);
    free(text);

    size = vault_pack(vault, NULL, 0);
    packed = malloc(size);
    packed[0] = 0x55;

    assert_int_equal(vault_pack(vault, packed, size - 1), size);
    assert_int_equal(packed[0], 0x55);           /* nothing was written */
    assert_int_equal(vault_pack(vault, packed, size), size);

    for (i = 0; i < 500; i++) {
        (void) sprintf(name, "n%d", i);
        (void) sprintf(value, "value-of-number-%06d", i);
        found = vault_packed_find(packed, size, name, &len);
        assert_non_null(found);
        assert_int_equal(len, strlen(value));
        assert_memory_equal(found, value, len);
    }

    /* cut anywhere, it gives nothing or what is inside */

    for (cut = 0; cut < size; cut += 7) {

        damaged = malloc(cut ? cut : 1);
        memcpy(damaged, packed, cut);
        found = vault_packed_find(damaged, cut, "n250", &len);
        assert_true(found == NULL
                    || (found >= damaged && found + len <= damaged + cut));
        free(damaged);
    }

    /* and with any byte of its tables turned */

    damaged = malloc(size);

    for (at = 0; at < size; at += 3) {
        memcpy(damaged, packed, size);
        damaged[at] ^= 0xff;
        found = vault_packed_find(damaged, size, "n250", &len);
        assert_true(found == NULL
                    || (found >= damaged && found + len <= damaged + size));
    }

    free(damaged);
    free(packed);
    vault_free(vault);
}


/* Sealed values. */

static const unsigned char  seal_key[VAULT_KEY_SIZE] =
    "a key of 32 bytes, not random..";
static const unsigned char  other_key[VAULT_KEY_SIZE] =
    "another key of 32 bytes .......";


/* Appends "NAME = sealed value" to the text: the new end. */

static char *
put_sealed(char *p, const char *name, const char *of, const char *value)
{
    size_t        n;
    vault_line_t  line;

    memset(&line, 0, sizeof(line));
    line.name = (const unsigned char *) of;
    line.name_len = strlen(of);
    line.value = (const unsigned char *) value;
    line.value_len = strlen(value);

    p += sprintf(p, "%s = ", name);
    n = vault_seal_value(seal_key, &line, p);
    assert_true(n > 0 && n <= VAULT_SEALED_MAX);
    p += n;
    *p++ = '\n';
    *p = '\0';

    return p;
}


static void
test_sealed(void **state)
{
    char      err[VAULT_ERROR_MAX], *text, *p, *longest;
    vault_t  *vault;

    (void) state;

    text = malloc(64 * 1024);
    longest = malloc(VAULT_VALUE_MAX + 1);
    memset(longest, 'x', VAULT_VALUE_MAX);
    longest[VAULT_VALUE_MAX] = '\0';

    p = put_sealed(text, "b", "b", SECRET);
    p = put_sealed(p, "a", "a", OTHER);
    p = put_sealed(p, "c", "c", longest);
    p = put_sealed(p, "d", "d", SECRET);
    p = put_sealed(p, "e", "e", "0123456789abcdef");

    vault = vault_parse("v", (unsigned char *) text, (size_t) (p - text),
                        seal_key, err);
    expect(vault != NULL, "%s", err);
    assert_int_equal(vault_count(vault), 5);
    assert_value(vault, "a", OTHER);
    assert_value(vault, "b", SECRET);
    assert_value(vault, "c", longest);
    assert_value(vault, "d", SECRET);
    assert_value(vault, "e", "0123456789abcdef");
    vault_free(vault);

    /* with the same key and value, no text comes twice */

    (void) put_sealed(text, "a", "a", SECRET);
    (void) put_sealed(longest, "a", "a", SECRET);
    assert_string_not_equal(text, longest);

    free(longest);
    free(text);
}


static void
sealed_is_refused(const char *what, const char *text,
    const unsigned char *key, const char *says)
{
    char      err[VAULT_ERROR_MAX];
    vault_t  *vault;

    vault = vault_parse("v", (const unsigned char *) text, strlen(text), key,
                        err);
    expect(vault == NULL, "%s: accepted", what);
    expect(strstr(err, says) != NULL, "%s: no \"%s\" in: %s", what, says,
           err);
    expect(strstr(err, "sk_live") == NULL && strstr(err, "ABCDEFG") == NULL,
           "%s shows a value: %s", what, err);
}


static void
test_sealed_refused(void **state)
{
    char    text[1024], two[1024], again[1024], *p, *end, value[4];
    size_t  i;

    (void) state;

    end = put_sealed(put_sealed(text, "a", "a", SECRET), "b", "b", OTHER);

    sealed_is_refused("another key", text, other_key,
                      "line 1, entry \"a\": the value does not open, and no "
                      "other entry does: this is not the key");

    (void) put_sealed(two, "a", "a", SECRET);
    sealed_is_refused("another key, of one entry", two, other_key,
                      "line 1, entry \"a\": the value does not open, and no "
                      "other entry does: this is not the key");

    sealed_is_refused("no key", text, NULL,
                      "line 1, entry \"a\": the value is sealed: name its "
                      "key, \"agent_vault FILE key=KEYFILE\"");

    (void) put_sealed(put_sealed(two, "a", "b", SECRET), "b", "b", OTHER);
    sealed_is_refused("moved from an entry that is there", two, seal_key,
                      "line 1, entry \"a\": the value was sealed for another "
                      "entry, and does not open as this one: it is that of "
                      "\"b\"");

    (void) put_sealed(put_sealed(two, "a", "z", SECRET), "b", "b", OTHER);
    sealed_is_refused("moved from an entry that is not there", two, seal_key,
                      "line 1, entry \"a\": the value was changed or cut, or "
                      "was sealed for another name or key; other entries");

    p = put_sealed(two, "a", "a", SECRET);
    (void) sprintf(p, "b = %s\n", OTHER);
    sealed_is_refused("one in clear", two, seal_key,
                      "line 2, entry \"b\": the value is not sealed, and with "
                      "a key all must be: run \"agent-vault seal\"");

    sealed_is_refused("nothing behind it", "a = {gcm1}\n", seal_key,
                      "entry \"a\": there is nothing behind {gcm1}");
    sealed_is_refused("three characters of base64", "a = {gcm1}AAA\n",
                      seal_key, "is cut, or is not base64: its length");
    sealed_is_refused("no base64", "a = {gcm1}A*AA\n", seal_key,
                      "entry \"a\": the text behind {gcm1} is not base64");
    sealed_is_refused("a short text", "a = {gcm1}AAAA\n", seal_key,
                      "entry \"a\": the text behind {gcm1} is cut: it is "
                      "shorter than any sealed value");

    /* each of its characters matters, the last bits of the base64 too */

    for (p = strchr(text, '}') + 1; *p != '\n'; p++) {

        i = (size_t) (p - text);
        (void) strcpy(again, text);
        again[i] = (char) (again[i] == 'A' ? 'B' : 'A');
        sealed_is_refused("one character changed", again, seal_key,
                          "line 1, entry \"a\": the ");

        /* and it cannot be cut, with the other entry behind it */

        (void) strcpy(again, text);
        memmove(again + i, strchr(text, '\n'),
                strlen(strchr(text, '\n')) + 1);
        sealed_is_refused("cut", again, seal_key, "line 1, entry \"a\": t");
    }

    /* a nul, a blank and a longer text in the place of a character */

    for (i = 0; i < 3; i++) {
        (void) strcpy(value, i == 0 ? " " : i == 1 ? "\t" : "==");
        (void) strcpy(again, text);
        p = strchr(again, '\n');
        memmove(p + strlen(value), p, strlen(p) + 1);
        memcpy(p - 1, value, strlen(value));
        sealed_is_refused("something else behind it", again, seal_key, "t");
    }

    assert_true(end > text);

    /* what opens must be a value as well */

    (void) put_sealed(two, "a", "a", "Bearer " SECRET);
    sealed_is_refused("a sealed Bearer", two, seal_key,
                      "entry \"a\": the value begins with \"Bearer\"");
    (void) put_sealed(two, "a", "a", SECRET "\n" SECRET);
    sealed_is_refused("a sealed end of line", two, seal_key,
                      "entry \"a\": the value is not one line of text");
}


/* The files: each test has a fresh directory 0700 with a good vault 0600. */

static int
setup(void **state)
{
    int  fd;

    (void) state;

    (void) umask(022);
    (void) strcpy(dir, "/tmp/vault-test-XXXXXX");

    if (mkdtemp(dir) == NULL) {
        return -1;
    }

    (void) snprintf(path, sizeof(path), "%s/vault", dir);

    fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);

    if (fd == -1
        || write(fd, "a = " SECRET "\n", 5 + 24) != 5 + 24
        || close(fd) != 0)
    {
        return -1;
    }

    return 0;
}


static int
teardown(void **state)
{
    char                extra[160];
    size_t              i;
    static const char  *names[] = { "vault", "other", "link" };

    (void) state;

    (void) chmod(dir, 0700);

    for (i = 0; i < COUNT(names); i++) {
        (void) snprintf(extra, sizeof(extra), "%s/%s", dir, names[i]);
        (void) unlink(extra);
    }

    return rmdir(dir);
}


static void
expect_loads(const char *what)
{
    char      err[VAULT_ERROR_MAX];
    vault_t  *vault;

    vault = vault_load(path, NULL, geteuid(), err);
    expect(vault != NULL, "%s: %s", what, err);
    assert_value(vault, "a", SECRET);
    vault_free(vault);
}


static void
expect_refused(const char *what, const char *file, uid_t owner,
    const char *says)
{
    char      err[VAULT_ERROR_MAX];
    vault_t  *vault;

    vault = vault_load(file, NULL, owner, err);
    expect(vault == NULL, "%s is accepted", what);
    expect(strstr(err, says) != NULL, "%s: no \"%s\" in: %s", what, says,
           err);
    expect(strstr(err, "sk_live") == NULL, "%s shows a value: %s", what, err);
}


static void
test_file_modes(void **state)
{
    mode_t  mode;
    char    what[32];

    (void) state;

    for (mode = 0; mode <= 0777; mode++) {

        /* what the owner may do is his own; root reads 0000 as well */

        if ((mode & 0400) == 0) {
            continue;
        }

        assert_int_equal(chmod(path, mode), 0);
        (void) snprintf(what, sizeof(what), "mode %04o", (unsigned) mode);

        if (mode & 077) {
            expect_refused(what, path, geteuid(), "chmod 600 /tmp/vault-");
        } else {
            expect_loads(what);
        }
    }
}


static void
test_directory_modes(void **state)
{
    char    what[32];
    size_t  i;

    static const struct {
        mode_t  mode;
        int     ok;
    } rows[] = {
        { 0700, 1 }, { 0711, 1 }, { 0755, 1 }, { 01755, 1 }, { 0750, 1 },
        { 0770, 0 }, { 0775, 0 }, { 0777, 0 }, { 01777, 0 }, { 01770, 0 },
        { 0707, 0 }, { 0720, 0 }, { 0702, 0 }
    };

    (void) state;

    for (i = 0; i < COUNT(rows); i++) {

        assert_int_equal(chmod(dir, rows[i].mode), 0);
        (void) snprintf(what, sizeof(what), "directory %04o",
                        (unsigned) rows[i].mode);

        if (rows[i].ok) {
            expect_loads(what);
        } else {
            expect_refused(what, path, geteuid(), "chmod go-w");
        }
    }
}


static void
test_links(void **state)
{
    char  other[160];

    (void) state;

    expect_loads("the file itself");

    (void) snprintf(other, sizeof(other), "%s/link", dir);

    assert_int_equal(symlink("vault", other), 0);
    expect_refused("a symbolic link", other, geteuid(), "symbolic link");
    assert_int_equal(unlink(other), 0);

    assert_int_equal(link(path, other), 0);
    expect_refused("a second hard link", path, geteuid(), "2 names");
    assert_int_equal(unlink(other), 0);

    expect_loads("after they are gone");
}


static void
test_kinds(void **state)
{
    char  other[160];

    (void) state;

    (void) snprintf(other, sizeof(other), "%s/other", dir);

    /* without O_NONBLOCK this would wait for ever */

    assert_int_equal(mkfifo(other, 0600), 0);
    expect_refused("a FIFO", other, geteuid(), "not a regular file");
    assert_int_equal(unlink(other), 0);

    expect_refused("a missing file", other, geteuid(), "No such file");
    expect_refused("a missing directory", "/tmp/no-such-dir/vault",
                   geteuid(), "No such file");
    expect_refused("a directory", dir, geteuid(), "vault");
    expect_refused("an empty name", "", geteuid(), "vault");
    expect_refused("a name that ends in a slash", "/etc/", geteuid(),
                   "vault");
    expect_refused("a device", "/dev/null", geteuid(), "vault");
    expect_refused("a file of the kernel's", "/proc/version", geteuid(),
                   "vault");
}


static void
test_owner(void **state)
{
    char      err[VAULT_ERROR_MAX];
    vault_t  *vault;

    (void) state;

    if (geteuid() != 0) {

        /* for another master the file belongs to a stranger */

        expect_refused("another's directory", path, geteuid() + 1,
                       "belongs to uid");
        return;
    }

    /* root reads a file of the broker's user, and no one else's */

    assert_int_equal(chown(path, NOBODY, NOBODY), 0);
    vault = vault_load(path, NULL, NOBODY, err);
    expect(vault != NULL, "the owner's file: %s", err);
    vault_free(vault);

    expect_refused("another's file", path, 0, "belongs to uid 65534");
    expect_refused("another's file", path, 1000, "chown 1000 /tmp/vault-");

    /* root's file is fine for any user */

    assert_int_equal(chown(path, 0, 0), 0);
    vault = vault_load(path, NULL, NOBODY, err);
    expect(vault != NULL, "root's file: %s", err);
    vault_free(vault);

    assert_int_equal(chown(dir, NOBODY, NOBODY), 0);
    expect_refused("another's directory", path, 0, "belongs to uid 65534");

    vault = vault_load(path, NULL, NOBODY, err);
    expect(vault != NULL, "the owner's directory: %s", err);
    vault_free(vault);

    assert_int_equal(chown(dir, 0, 0), 0);
}


static void
test_size(void **state)
{
    int     fd;
    char    line[1025];
    size_t  i;

    (void) state;

    memset(line, '#', 1024);
    line[1023] = '\n';

    fd = open(path, O_WRONLY | O_APPEND);
    assert_int_not_equal(fd, -1);

    for (i = 0; i < 1023; i++) {
        assert_int_equal(write(fd, line, 1024), 1024);
    }

    expect_loads("nearly 1 MiB");

    assert_int_equal(write(fd, line, 1024), 1024);
    assert_int_equal(close(fd), 0);

    expect_refused("more than 1 MiB", path, geteuid(), "larger than 1 MiB");
}


static void
test_relative(void **state)
{
    char      err[VAULT_ERROR_MAX], was[4096];
    vault_t  *vault;

    (void) state;

    assert_non_null(getcwd(was, sizeof(was)));
    assert_int_equal(chdir(dir), 0);

    vault = vault_load("vault", NULL, geteuid(), err);
    assert_int_equal(chdir(was), 0);
    expect(vault != NULL, "%s", err);
    vault_free(vault);
}


#define FILE_PROMISE(text, f)  { text, f, setup, teardown, NULL }


int
main(void)
{
    const struct CMUnitTest  tests[] = {
        PROMISE("entries, comments and blank lines are read", test_accepted),
        PROMISE("C-015 G-061 a refusal names line, entry and cause, never "
                "the value", test_refused),
        PROMISE("C-015 no byte of a value is anything but printable ASCII",
                test_value_bytes),
        PROMISE("a value has 16 to 4096 characters", test_lengths),
        PROMISE("the packed form is found by name, and damaged gives nothing "
                "from outside", test_packed),
        PROMISE("sealed values open with their key, and no two texts are the "
                "same", test_sealed),
        PROMISE("a sealed value that does not open is refused with its "
                "entry and why", test_sealed_refused),
        FILE_PROMISE("C-021 a vault that group or others can touch is "
                     "refused, with the command that mends it",
                     test_file_modes),
        FILE_PROMISE("C-021 a directory that others can write is refused, "
                     "sticky or not", test_directory_modes),
        FILE_PROMISE("C-021 symbolic and hard links are refused", test_links),
        FILE_PROMISE("C-021 what is not a regular file is refused at once",
                     test_kinds),
        FILE_PROMISE("C-021 only root's and the owner's file and directory "
                     "are taken", test_owner),
        FILE_PROMISE("a vault has at most 1 MiB", test_size),
        FILE_PROMISE("a vault is found beside the working directory",
                     test_relative),
    };

    return unit_run(tests);
}
