package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/admission/webhooks"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/host"
)

func newAdmission(signals <-chan os.Signal) *cobra.Command {
	serve, format, config := newServeFlags(), "", ""
	command := &cobra.Command{
		Use:   "admission",
		Short: "Print the admission plugins in their order, with their state and purpose",
		Long: `Print the admission plugins in their order of execution, whether each is enabled by the
given flags, and its purpose. The command accepts the flags of serve and ignores flags
without effect on plugins.

With --kubeconfig, it prints the plugins of a running server and the state of its
webhooks, including webhooks that are called less often because they keep failing.`,
		Example: `  mainstay admission --enable-admission-plugins=AlwaysPullImages
  mainstay admission --kubeconfig=mainstay-data/admin.kubeconfig`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if format != "" && format != "json" {
				return &usageError{fmt.Errorf("--output is %q; it must be json", format)}
			}
			if config != "" {
				ctx, stop := untilSignal(signals)
				defer stop()
				return printRunningAdmission(ctx, c.OutOrStdout(), config, format)
			}
			serve.config.Version = version
			host, err := host.New(serve.config)
			if err != nil {
				return &usageError{err}
			}
			if format == "json" {
				return writeJSON(c.OutOrStdout(), host.ListAdmission())
			}
			return writeAdmission(c.OutOrStdout(), host.ListAdmission())
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
	command.Flags().StringVar(&config, "kubeconfig", "", "kubeconfig of a running server to query")
	command.Flags().StringVarP(&format, "output", "o", "", "output format: json (default: a table)")
	return command
}

// printRunningAdmission prints the admission plugins and webhooks of a running server.
func printRunningAdmission(ctx context.Context, out io.Writer, config, format string) error {
	client, err := newAPIClient(config)
	if err != nil {
		return err
	}
	var state controlplane.AdmissionState
	if err := client.do(ctx, http.MethodGet, controlplane.AdmissionPath, nil, &state); err != nil {
		return err
	}
	if format == "json" {
		return writeJSON(out, &state)
	}
	if err := writeAdmission(out, state.Plugins); err != nil {
		return err
	}
	return writeWebhooks(out, state.Webhooks)
}

func writeJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

func writeWebhooks(out io.Writer, states []webhooks.State) error {
	if len(states) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nWEBHOOK\tCONFIGURATION\tKIND\tFAILURES\tSTATE")
	for _, s := range states {
		state := "responding"
		if s.CircuitOpen {
			state = "called less often until it responds"
		}
		if s.LastFailure != "" {
			state += ": " + strings.Join(strings.Fields(s.LastFailure), " ")
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", s.Webhook, s.Configuration, s.Kind, s.Failures, state)
	}
	return table.Flush()
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
		fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, on, p.Description)
	}
	return table.Flush()
}
