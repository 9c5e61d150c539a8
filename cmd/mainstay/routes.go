package main

import (
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/host"
)

func newRoutes() *cobra.Command {
	return &cobra.Command{
		Use:   "routes",
		Short: "Print the routes of the server: verb, path and kind",
		Args:  noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			s, err := host.New(host.Config{Version: version})
			if err != nil {
				return err
			}
			table := tabwriter.NewWriter(c.OutOrStdout(), 0, 8, 2, ' ', 0)
			routes, err := s.Routes()
			if err != nil {
				return err
			}
			for _, route := range routes {
				fmt.Fprintf(table, "%s\t%s\t%s\n", route.Verb, route.Path, route.Kind)
			}
			return table.Flush()
		},
	}
}
