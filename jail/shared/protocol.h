/*
 * What the launcher and the broker must agree on, once, for both.
 */

#ifndef PROTOCOL_H
#define PROTOCOL_H


#define PROTOCOL_DOORS_MAX  64          /* descriptors that one message takes */


#endif /* PROTOCOL_H */
