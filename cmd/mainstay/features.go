package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/feature"
)

func newFeatures() *cobra.Command {
	format := ""
	command := &cobra.Command{
		Use:   "features",
		Short: "Print the feature gates: stage, default and effect",
		Long: `Print the feature gates of Kubernetes for --feature-gates of serve: their stage,
their default, and their effect in this server. Gates with "-" have no effect.
Locked gates can only be set to their default.`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			switch format {
			case "":
				return writeFeatures(c.OutOrStdout())
			case "json":
				return writeFeaturesJSON(c.OutOrStdout())
			}
			return &usageError{fmt.Errorf("--output is %q; it must be json", format)}
		},
	}
	command.Flags().StringVarP(&format, "output", "o", "", "output format: json (default: a table)")
	return command
}

func writeFeatures(out io.Writer) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tSTAGE\tDEFAULT\tCHANGES")
	for spec := range feature.Known() {
		preset, changes := fmt.Sprint(spec.Default), spec.Effect
		if spec.Locked {
			preset += " (locked)"
		}
		if changes == "" {
			changes = "-"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", spec.Gate, spec.Stage, preset, changes)
	}
	return table.Flush()
}

// writeFeaturesJSON prints all feature gates as a JSON array.
func writeFeaturesJSON(out io.Writer) error {
	type gate struct {
		Name    feature.Gate   `json:"name"`
		Stage   feature.Stage  `json:"stage"`
		Default bool           `json:"default"`
		Locked  bool           `json:"locked"`
		Needs   []feature.Gate `json:"needs,omitempty"`
		Changes string         `json:"changes,omitempty"`
	}
	var gates []gate
	for spec := range feature.Known() {
		gates = append(gates, gate{spec.Gate, spec.Stage, spec.Default, spec.Locked, spec.DependsOn, spec.Effect})
	}
	return writeJSON(out, gates)
}
