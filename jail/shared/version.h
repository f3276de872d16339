/*
 * The release that launcher and broker are of.
 */

#pragma once


#define AGENT_BROKER_VERSION  "0.1.0"
