// Package backup copies an embedded store continuously to a directory or to a bucket of an object store, and
// restores the store as it was at any point in time within the retention.
//
// A Writer follows a store. It uploads a base, which is a snapshot, and then segments with all later
// commits, every few seconds. A new base is uploaded once per day, so that a restore needs the segments
// of one day only. A generation is a base with the segments and bases that follow it without a gap.
// If the Writer cannot continue a generation, it begins a new one.
//
// A Catalog lists the objects of a target. It is created from the names of the objects, which contain
// their revisions and times:
//
//	GENERATION/REVISION-TIME.base
//	GENERATION/FIRST-LAST-FIRSTTIME-LASTTIME.segment
//
// Revisions have 19 digits, so that names sort. Times have the format 20060102T150405.000Z; the time of a
// base is the time of its revision or slightly later. See format.go for the contents.
package backup
