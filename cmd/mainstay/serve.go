package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/telemetry"
)

const serveLong = `Serve the Kubernetes API.

Without flags, the server listens on https://127.0.0.1:6443 and stores its data in
./mainstay-data: the store, its own certificate authority, a serving certificate, a
key that signs service account tokens, and admin.kubeconfig for its administrator.
The first start creates these files, and later starts use them.

Flags have the same names as in kube-apiserver, and all flags of kube-apiserver are
accepted. A flag that has no effect in this server is reported in the log.

SIGTERM or SIGINT stops the server gracefully: /readyz fails, requests in flight
complete, watches end, and the store is closed. A second signal stops it immediately.`

func newServe(p process) *cobra.Command {
	flags := newServeFlags()
	command := &cobra.Command{
		Use: "serve",
		// These are the names of this command in other programs.
		SuggestFor: []string{"start", "server", "up", "apiserver"},
		Short:      "Serve the Kubernetes API",
		Long:       serveLong,
		Example: `  mainstay serve
  mainstay serve --data-dir=/var/lib/mainstay --bind-address=0.0.0.0
  mainstay serve --logging-format=json -v=3`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.version {
				printVersion(c.OutOrStdout())
				return nil
			}
			if err := flags.check(); err != nil {
				return &usageError{err}
			}
			return serve(flags, c.OutOrStdout(), c.ErrOrStderr(), p)
		},
	}
	flags.addTo(command.Flags())
	command.SetUsageFunc(flags.usage)
	return command
}

func serve(flags *serveFlags, stdout, stderr io.Writer, p process) error {
	config, log := flags.config, flags.log
	out := telemetry.NewLogWriter(stderr)
	log.Output = out
	if flags.splitsLog() {
		log.InfoOutput = stdout
	}
	log.Level = new(slog.LevelVar)
	config.Debug.LogLevel = log.Level
	logger, err := telemetry.NewLogger(log)
	if err != nil {
		return &usageError{fmt.Errorf("--logging-format: %w", err)}
	}
	p.logLibraries(logger)
	flags.warnIgnored(logger)
	if flags.contentionProfiling && !config.Debug.DisableProfiling {
		runtime.SetBlockProfileRate(1)
	}
	config.Logger, config.Version, config.Debug.Flags = logger, version, flags.values()
	config.ControlPlane.Checks = append(config.ControlPlane.Checks, out.Check())
	config.OnServing = func(serving host.Serving) {
		fmt.Fprintf(stdout, "Mainstay %s serves the Kubernetes API %s at %s\n", version, config.ControlPlane.ServedVersion(), serving.URL)
		if serving.Kubeconfig != "" {
			fmt.Fprintf(stdout, "To use it:  export KUBECONFIG=%s\n", shellQuote(serving.Kubeconfig))
		}
	}
	limitMemory(&config)
	s, err := host.New(config)
	if err != nil {
		return &usageError{err}
	}
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	ended := make(chan struct{})
	defer close(ended)
	go func() { // ends with this function
		select {
		case <-p.signals:
			stop()
		case <-ended:
			return
		}
		select {
		case <-p.signals:
			fmt.Fprintln(stderr, "mainstay: stopped immediately by a second signal")
			os.Exit(exitFailure)
		case <-ended:
		}
	}()
	go returnMemory(ctx) // ends with this function
	return s.Run(ctx)
}

// shellQuote quotes a path for a shell.
func shellQuote(path string) string {
	for _, r := range path {
		switch {
		case r >= 'a' && r <= 'z', r >= 'A' && r <= 'Z', r >= '0' && r <= '9':
		case r == '/', r == '.', r == '-', r == '_', r == ':', r == '\\':
		default:
			return "'" + strings.ReplaceAll(path, "'", `'\''`) + "'"
		}
	}
	return path
}
