/*
 * A list of operations grows in the launcher; the child reads its copy.
 */

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "box/mount_list.h"


#define LIST_OPS  256                   /* as many as a box without policy */


void
mount_list_add(mount_list_t *list, mount_op_t op)
{
    size_t       cap;
    mount_op_t  *ops;

    if (list->n == list->cap) {
        cap = list->cap ? 2 * list->cap : LIST_OPS;
        ops = reallocarray(list->ops, cap, sizeof(*ops));

        if (ops == NULL) {
            list->is_cut = true;
            return;
        }

        list->ops = ops;
        list->cap = cap;
    }

    list->ops[list->n++] = op;
}


const char *
mount_list_text(mount_list_t *list, const char *fmt, ...)
{
    char    **texts;
    va_list   args;

    texts = reallocarray(list->texts, list->ntexts + 1, sizeof(*texts));

    if (texts == NULL) {
        list->is_cut = true;
        return "";
    }

    list->texts = texts;
    va_start(args, fmt);

    if (vasprintf(&texts[list->ntexts], fmt, args) == -1) {
        list->is_cut = true;
        texts[list->ntexts] = NULL;
    }

    va_end(args);

    return texts[list->ntexts] ? texts[list->ntexts++] : "";
}


void
mount_list_free(mount_list_t *list)
{
    while (list->ntexts > 0) {
        free(list->texts[--list->ntexts]);
    }

    free(list->texts);
    free(list->ops);
    *list = (mount_list_t) { 0 };
}
