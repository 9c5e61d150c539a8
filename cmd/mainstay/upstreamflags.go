package main

import _ "embed"

// upstreamFlags is a table with the flags of kube-apiserver.
//
//go:embed upstream-flags.tsv
var upstreamFlags string
