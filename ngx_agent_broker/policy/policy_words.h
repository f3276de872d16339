/*
 * The grammar of the words that policies are made of.  Each *_refusal gives a
 * constant phrase that follows the quoted word in a message, or NULL for a
 * word that is fine.
 */

#pragma once

#include <stdbool.h>
#include <stddef.h>

#include "parse/address.h"


/* 1 to 64 letters, digits, "_", and after the first "." and "-". */
bool policy_is_name(const char *text);

bool policy_is_method(const char *text);

/* One line of valid UTF-8 that shows as it is, of 1 to max bytes. */
bool policy_is_plain_text(const char *text, size_t max);

/* Certificates' text, by its form; whether they can be read is not judged. */
bool policy_is_pem(const char *text);

const char *policy_env_refusal(const char *name);
const char *policy_readable_refusal(const char *path);
const char *policy_writable_refusal(const char *path);

/* host: what is behind the "*." */
const char *policy_wildcard_refusal(const char *host);

/* Why no rule may have this `private` range. */
const char *policy_range_refusal(const address_range_t *range);
