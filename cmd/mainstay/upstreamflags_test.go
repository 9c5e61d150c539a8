package main

import (
	_ "embed"
	"strings"
)

// upstreamFlags is a table with the flags of kube-apiserver.
//
//go:embed upstream-flags.tsv
var upstreamFlags string

// tableRows parses a table of tab-separated values. Lines that start with # are comments.
func tableRows(table string) [][]string {
	var rows [][]string
	for line := range strings.Lines(table) {
		if line = strings.TrimRight(line, "\r\n"); line != "" && line[0] != '#' {
			rows = append(rows, strings.Split(line, "\t"))
		}
	}
	return rows
}
