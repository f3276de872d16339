/*
 * The results as one JSON object, or as text for people, on standard output.
 */

#pragma once

#include "doctor/doctor.h"
#include "doctor/layer.h"


/* results: one for each row of layer_table; compare may be NULL. */
int doctor_report_json(const doctor_t *d, const layer_result_t *results,
    json_t *compare, bool ok, const char *version);
void doctor_report_text(const doctor_t *d, const layer_result_t *results,
    bool ok);
