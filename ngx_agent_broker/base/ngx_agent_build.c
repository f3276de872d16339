/*
 * Which build of the module runs, and whether its file still holds it.  A
 * reload loads no new module: dlopen() of a path that is loaded gives what is
 * there.  The linker's build id is in the file's first bytes and in memory.
 */


#include "base/ngx_agent_base.h"

#include <elf.h>
#include <link.h>


#define NGX_AGENT_BUILD_HEAD  65536         /* of the file: has its notes */


typedef struct {
    char           path[PATH_MAX];
    const u_char  *note;                    /* the whole note, or NULL */
    size_t         note_len;
    const u_char  *id;
    size_t         id_len;
} ngx_agent_build_t;


static int ngx_agent_build_look(struct dl_phdr_info *info, size_t size,
    void *data);
static void ngx_agent_build_note(ngx_agent_build_t *build, const u_char *p,
    size_t len);


/* Stops at the object that holds this function. */

static int
ngx_agent_build_look(struct dl_phdr_info *info, size_t size, void *data)
{
    ngx_agent_build_t *build = data;

    int                i, is_own;
    uintptr_t          start, own;
    const ElfW(Phdr)  *ph;

    own = (uintptr_t) &ngx_agent_build_look;
    is_own = 0;

    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];
        start = info->dlpi_addr + ph->p_vaddr;

        is_own |= ph->p_type == PT_LOAD && own >= start
                  && own - start < ph->p_memsz;
    }

    if (!is_own) {
        return 0;
    }

    (void) ngx_cpystrn((u_char *) build->path, (u_char *) info->dlpi_name,
                       sizeof(build->path));

    for (i = 0; i < info->dlpi_phnum; i++) {
        ph = &info->dlpi_phdr[i];

        if (ph->p_type == PT_NOTE) {
            ngx_agent_build_note(build, (const u_char *) info->dlpi_addr
                                        + ph->p_vaddr, ph->p_memsz);
        }
    }

    return 1;
}


/* Names and contents of notes are padded to 4 bytes. */

static void
ngx_agent_build_note(ngx_agent_build_t *build, const u_char *p, size_t len)
{
    size_t             name, size;
    const ElfW(Nhdr)  *note;

    while (len >= sizeof(ElfW(Nhdr))) {

        note = (const ElfW(Nhdr) *) p;
        name = (note->n_namesz + 3) & ~(size_t) 3;
        size = sizeof(ElfW(Nhdr)) + name
               + ((note->n_descsz + 3) & ~(size_t) 3);

        if (size > len) {
            return;
        }

        if (note->n_type == NT_GNU_BUILD_ID && note->n_namesz == 4
            && ngx_memcmp(p + sizeof(ElfW(Nhdr)), "GNU", 4) == 0)
        {
            build->note = p;
            build->note_len = size;
            build->id = p + sizeof(ElfW(Nhdr)) + name;
            build->id_len = note->n_descsz;
        }

        p += size;
        len -= size;
    }
}


void
ngx_agent_build_id(char hex[NGX_AGENT_BUILD_ID + 1])
{
    u_char             *end;
    ngx_agent_build_t   build;

    ngx_memzero(&build, sizeof(ngx_agent_build_t));

    (void) dl_iterate_phdr(ngx_agent_build_look, &build);

    end = ngx_hex_dump((u_char *) hex, (u_char *) build.id,
                       ngx_min(build.id_len, NGX_AGENT_BUILD_ID / 2));
    *end = '\0';
}


ngx_uint_t
ngx_agent_build_is_replaced(char path[PATH_MAX])
{
    char               *text;
    ssize_t             n;
    ngx_fd_t            fd;
    ngx_uint_t          is_same;
    ngx_agent_build_t   build;

    ngx_memzero(&build, sizeof(ngx_agent_build_t));

    (void) dl_iterate_phdr(ngx_agent_build_look, &build);
    (void) ngx_cpystrn((u_char *) path, (u_char *) build.path, PATH_MAX);

    text = malloc(NGX_AGENT_BUILD_HEAD);

    if (build.note == NULL || text == NULL) {
        free(text);
        return 0;                           /* it cannot be told */
    }

    fd = open(build.path, O_RDONLY|O_CLOEXEC|O_NONBLOCK);
    n = -1;

    if (fd != NGX_INVALID_FILE) {
        n = read(fd, text, NGX_AGENT_BUILD_HEAD);
        (void) close(fd);
    }

    is_same = n > 0 && memmem(text, n, build.note, build.note_len) != NULL;

    free(text);

    return !is_same;
}
