package main

import (
	"encoding/json"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/controlplane"
	"mainstay.dev/mainstay/server"
)

func newAdmission() *cobra.Command {
	serve, format := newServeFlags(), ""
	command := &cobra.Command{
		Use:   "admission",
		Short: "Print the admission plugins in their order: which are on, and what each does",
		Long: `Print the admission plugins in their order of execution, which of them take part in a
server with the given flags, and what each does. It takes the flags of serve: all
that plugins do not depend on are ignored.`,
		Example: `  mainstay admission --enable-admission-plugins=AlwaysPullImages`,
		Args:    noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			serve.config.Version = version
			host, err := server.New(serve.config)
			if err != nil {
				return &usageError{err}
			}
			switch format {
			case "":
				return writeAdmission(c.OutOrStdout(), host.ListAdmission())
			case "json":
				encoder := json.NewEncoder(c.OutOrStdout())
				encoder.SetIndent("", "  ")
				return encoder.Encode(host.ListAdmission())
			}
			return &usageError{fmt.Errorf("--output is %q; it must be json", format)}
		},
	}
	serve.addTo(command.Flags())
	command.Flags().VisitAll(func(flag *pflag.Flag) {
		switch flag.Name {
		case "enable-admission-plugins", "disable-admission-plugins", "admission-control-config-file", "feature-gates":
		default:
			flag.Hidden = true
		}
	})
	command.Flags().StringVarP(&format, "output", "o", "", "json: for programs (default: a table)")
	return command
}

func writeAdmission(out io.Writer, plugins []controlplane.AdmissionPlugin) error {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "NAME\tON\tDOES")
	for _, p := range plugins {
		on := "yes"
		switch {
		case !p.On && p.Default && p.Gate != "":
			on = "no (feature gate " + string(p.Gate) + ")"
		case !p.On:
			on = "no"
		}
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, on, p.Does)
	}
	return table.Flush()
}
