package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/controlplane"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

const atLong = `Run a command that reads the API as it was at an earlier time.

TIME is a time such as 2026-11-27T14:02:00Z, an age such as -15m or -2d, or rv/ and a
resourceVersion. COMMAND runs with KUBECONFIG set to a kubeconfig whose server has the
path /at/rv/REVISION, so that all its requests read the same state. Such requests are
read-only. The user needs the verb "history" for the resources that the command reads,
in addition to get, list or watch.

Without a command, the command prints the revision of the state, and the time of its newest change.

The flags --history-max-age, --history-max-size and --history-resources of the server
determine which states are available.`

func newAt(p process) *cobra.Command {
	return &cobra.Command{
		Use:   "at TIME [--kubeconfig=FILE] [-- COMMAND [ARGUMENT...]]",
		Short: "Run a command that reads the API as of an earlier time",
		Long:  atLong,
		Example: `  mainstay at -15m -- kubectl get pods -A
  mainstay at 2026-11-27T14:02:00Z -- helm list -A
  mainstay at -2d`,
		DisableFlagParsing: true, // an age begins with a hyphen
		RunE: func(c *cobra.Command, args []string) error {
			a := atCommand{stdout: c.OutOrStdout(), stderr: c.ErrOrStderr(), process: p}
			err := a.parse(args)
			if errors.Is(err, pflag.ErrHelp) {
				return c.Help()
			}
			if err != nil {
				return &usageError{err}
			}
			return a.run()
		},
	}
}

// atCommand is the command at.
type atCommand struct {
	stdout, stderr io.Writer
	process

	moment, kubeconfig string
	command            []string
}

// parse parses the arguments. The point in time may begin with a hyphen, as in -15m.
func (a *atCommand) parse(args []string) error {
	if i := slices.Index(args, "--"); i >= 0 {
		args, a.command = args[:i], args[i+1:]
		if len(a.command) == 0 {
			return errors.New("a command is required after --, as in mainstay at -15m -- kubectl get pods")
		}
	}
	isAge := func(arg string) bool { return len(arg) > 1 && arg[0] == '-' && arg[1] >= '0' && arg[1] <= '9' }
	if i := slices.IndexFunc(args, isAge); i >= 0 {
		a.moment, args = args[i], slices.Delete(slices.Clone(args), i, i+1)
	}
	flags := pflag.NewFlagSet("at", pflag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.StringVar(&a.kubeconfig, "kubeconfig", "", "")
	if err := flags.Parse(args); err != nil {
		return err
	}
	rest := flags.Args()
	if a.moment == "" && len(rest) > 0 {
		a.moment, rest = rest[0], rest[1:]
	}
	switch {
	case a.moment == "":
		return errors.New("a time is required, such as -15m or 2026-11-27T14:02:00Z")
	case len(rest) > 0:
		return fmt.Errorf("unexpected argument %q; a command follows after --", rest[0])
	}
	return checkMoment("the time", a.moment)
}

// checkMoment returns an error if a point in time cannot be parsed. name is the name of the flag or argument,
// for the error. A valid value needs no escaping in a URL path.
func checkMoment(name, moment string) error {
	if _, _, err := history.ParseMoment(moment, time.Now()); err != nil {
		return fmt.Errorf("%s is %q; %w", name, moment, err)
	}
	return nil
}

func (a *atCommand) run() (err error) {
	ctx, stop := untilSignal(a.signals)
	defer stop()
	revision, at, err := resolveMoment(ctx, a.kubeconfig, a.moment)
	if err != nil {
		return err
	}
	if len(a.command) == 0 {
		fmt.Fprintf(a.stdout, "resourceVersion %s, last change at %s\n", revision, at)
		return nil
	}
	text, err := kubeconfig.WithPath(kubeconfigFile(a.kubeconfig), "/at/rv/"+revision)
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "mainstay-at-")
	if err != nil {
		return fmt.Errorf("create a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	stop()
	code, err := runWith(a.command, []string{"KUBECONFIG=" + file}, a.stdout, a.stderr, a.signals, nil)
	if code != exitOK {
		return code
	}
	return err
}

// resolveMoment returns the revision at a point in time, and the time of the last change before it. moment must
// be valid (see checkMoment).
func resolveMoment(ctx context.Context, file, moment string) (revision, at string, err error) {
	client, err := newAPIClient(file)
	if err != nil {
		return "", "", err
	}
	defer client.http.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, client.url+"/at/"+moment+"/api", nil)
	if err != nil {
		return "", "", err
	}
	response, err := client.http.Do(r)
	if err != nil {
		return "", "", err
	}
	defer response.Body.Close()
	revision, at = response.Header.Get(controlplane.RevisionHeader), response.Header.Get(controlplane.TimeHeader)
	switch {
	case response.StatusCode != http.StatusOK:
		return "", "", fmt.Errorf("read the state at %s: %s", moment, strings.TrimSpace(responseError(response)))
	case revision == "":
		return "", "", errors.New("the server has no history; see --history-max-age of \"mainstay serve\"")
	}
	return revision, at, nil
}
