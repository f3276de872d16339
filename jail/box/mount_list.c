/*
 * A list of operations grows in the launcher; the child reads its copy.
 */

#include <stdlib.h>

#include "box/mount_list.h"


#define LIST_OPS  256                   /* as many as a box without policy */


int
mount_list_add(mount_list_t *list, const mount_op_t *op)
{
    size_t       cap;
    mount_op_t  *ops;

    if (list->n == list->cap) {
        cap = list->cap ? 2 * list->cap : LIST_OPS;
        ops = reallocarray(list->ops, cap, sizeof(*ops));

        if (ops == NULL) {
            return -1;
        }

        list->ops = ops;
        list->cap = cap;
    }

    list->ops[list->n++] = *op;

    return 0;
}


void
mount_list_free(mount_list_t *list)
{
    free(list->ops);
    *list = (mount_list_t) { 0 };
}
