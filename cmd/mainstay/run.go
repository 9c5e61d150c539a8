package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/apis/controlplanes"
	"mainstay.dev/mainstay/internal/apitest/manifests"
	"mainstay.dev/mainstay/internal/apitest/throwaway"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/host"
	"mainstay.dev/mainstay/internal/telemetry"
)

const runLong = `Run a command with its own Kubernetes API.

The command starts a server on a free port, with in-memory storage. When the server is
ready, it runs COMMAND with KUBECONFIG set to an administrator's kubeconfig. After
COMMAND has exited, it removes the server and the kubeconfig, and exits with COMMAND's
exit code: 128 plus the signal number if a signal ended it, 126 or 127 if it cannot be
run. Signals are forwarded to COMMAND.

All flags of "mainstay serve" are accepted, too. With --data-dir the server stores its
data there and uses it again in the next run.`

// runFlags contains the flags of "mainstay run".
type runFlags struct {
	*serveFlags
	crds, manifests []string
	users           []string
	controlPlanes   int
	forkOf          string
	keepOnFailure   bool
	logFile         string
}

func newRun(p process) *cobra.Command {
	flags := &runFlags{serveFlags: newServeFlags()}
	flags.section("Running a command", flags.addFlags)
	slices.Reverse(flags.sections) // its own flags first
	command := &cobra.Command{
		Use:   "run [flags] -- COMMAND [ARGUMENT...]",
		Short: "Run a command with a throwaway Kubernetes API",
		Long:  runLong,
		Example: `  mainstay run -- kubectl get namespaces
  mainstay run --crds=config/crd --manifests=testdata -- go test ./...
  mainstay run --users=jane:developers,testers -- pytest
  mainstay run -- bash`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &usageError{errors.New("a command is required after --, as in mainstay run -- kubectl get namespaces")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			r := &runner{flags: flags, stdout: c.OutOrStdout(), stderr: c.ErrOrStderr(), process: p}
			return r.run(args)
		},
	}
	flags.addTo(command.Flags())
	command.Flags().SetInterspersed(false) // flags after the command belong to it
	command.SetUsageFunc(flags.usage)
	return command
}

// runner runs one command with its server.
type runner struct {
	flags          *runFlags
	stdout, stderr io.Writer
	process

	dir    string // temporary folder
	server *throwaway.Server
	// environment contains the environment variables of the command that name the kubeconfigs of control
	// planes.
	environment []string
}

func (r *runner) run(args []string) (err error) {
	config, err := r.flags.serverConfig()
	if err != nil {
		return &usageError{err}
	}
	users, err := parseUsers(r.flags.users)
	if err != nil {
		return &usageError{err}
	}
	fixtures, err := r.flags.fixtures()
	if err != nil {
		return err
	}
	closeLog, err := r.flags.openLog(&config, r.stderr, r.process)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeLog()) }()
	limitMemory(&config)
	if r.dir, err = os.MkdirTemp("", "mainstay-run-"); err != nil {
		return fmt.Errorf("create a temporary folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(r.dir)) }()
	if err := r.start(config, users, fixtures); err != nil {
		return err
	}
	err = r.command(args)
	if stopped := r.server.Stop(); stopped != nil {
		fmt.Fprintf(r.stderr, "mainstay: server: %v\n", stopped)
		err = cmp.Or(err, error(exitCode(exitFailure)))
	}
	return err
}

// start starts the server, writes the kubeconfig and applies the fixtures. If a signal arrives, it stops and
// returns an error.
func (r *runner) start(config host.Config, users []host.User, fixtures []manifests.Object) error {
	ctx, stop := untilSignal(r.signals)
	defer stop()
	started, err := throwaway.Start(ctx, config)
	if err == nil {
		if err = r.prepare(ctx, started, users, fixtures); err != nil {
			err = errors.Join(err, started.Stop())
		}
	}
	if ctx.Err() != nil {
		return errors.New("stopped by a signal before the command started")
	}
	r.server = started
	return err
}

func (r *runner) prepare(ctx context.Context, started *throwaway.Server, users []host.User, fixtures []manifests.Object) error {
	data, err := started.Host.Kubeconfig(users...)
	if err != nil {
		return fmt.Errorf("create the kubeconfig: %w", err)
	}
	if err := os.WriteFile(r.kubeconfig(), data, 0o600); err != nil {
		return fmt.Errorf("write the kubeconfig: %w", err)
	}
	if err := applyFixtures(ctx, r.kubeconfig(), fixtures); err != nil {
		return err
	}
	for i := range r.flags.controlPlanes {
		from := &controlplanes.Source{OutgoingCalls: controlplanes.AllowCalls} // a fork of the root control plane has its objects
		credentials, err := started.Host.CreateControlPlane(ctx, fmt.Sprint("worker-", i), from)
		if err != nil {
			return err
		}
		file := fmt.Sprint(r.kubeconfig(), "-", i)
		if err := os.WriteFile(file, credentials.Kubeconfig, 0o600); err != nil {
			return fmt.Errorf("write a kubeconfig: %w", err)
		}
		r.environment = append(r.environment, fmt.Sprintf("KUBECONFIG_%d=%s", i, file))
	}
	return nil
}

// applyFixtures applies objects to the server that a kubeconfig names.
func applyFixtures(ctx context.Context, file string, fixtures []manifests.Object) error {
	client, url, err := kubeconfig.Client(file, nil)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	applier := &manifests.Client{HTTP: client, URL: url}
	return applier.Apply(ctx, fixtures)
}

func (r *runner) kubeconfig() string { return filepath.Join(r.dir, "kubeconfig") }

// command runs the command and waits until it exits. If the server ends first, the command receives
// SIGTERM.
func (r *runner) command(args []string) error {
	code, err := runWith(args, append(r.environment, "KUBECONFIG="+r.kubeconfig()), r.stdout, r.stderr, r.signals, r.server.Ended())
	if code != exitOK {
		return r.failed(code)
	}
	return err
}

// runWith runs a command with additional environment variables and returns its exit code. It forwards
// signals to the command, and SIGTERM if the server ends first.
func runWith(args, environment []string, stdout, stderr io.Writer, signals <-chan os.Signal, serverEnded <-chan struct{}) (exitCode, error) {
	command := exec.Command(args[0], args[1:]...)
	command.Stdin, command.Stdout, command.Stderr = os.Stdin, stdout, stderr
	command.Env = append(os.Environ(), environment...)
	others, stop := otherSignals()
	defer stop()
	if err := command.Start(); err != nil {
		fmt.Fprintf(stderr, "mainstay: run %s: %v\n", args[0], err)
		return cannotRun(err), nil
	}
	ended, passed := make(chan struct{}), make(chan struct{})
	go func() { // ends with the command
		defer close(passed)
		forwardSignals(command.Process, signals, others, serverEnded, ended)
	}()
	err := command.Wait()
	close(ended)
	<-passed
	if code := exitCodeOf(command.ProcessState); code != exitOK {
		return code, nil
	}
	if err != nil {
		return exitOK, fmt.Errorf("run %s: %w", args[0], err)
	}
	return exitOK, nil
}

// failed returns the exit code as an error. With --keep-on-failure, the server continues to run, and failed
// first waits for a signal.
func (r *runner) failed(code exitCode) error {
	if r.flags.keepOnFailure {
		fmt.Fprintf(r.stderr, "mainstay: the command exited with code %d; the server runs until Ctrl-C. To use it:  export KUBECONFIG=%s\n",
			int(code), shellQuote(r.kubeconfig()))
		others, stop := otherSignals() // such as SIGHUP, when the terminal is closed
		defer stop()
		select {
		case <-r.signals:
		case <-others:
		case <-r.server.Ended():
		}
	}
	return code
}

// exitCode is an error that sets the exit code of this process. It is not printed, because the failure was
// already reported.
type exitCode int

func (c exitCode) Error() string { return fmt.Sprintf("exit code %d", int(c)) }

// exitNotExecutable and exitNotFound are the exit codes that shells return for commands that cannot be run.
const (
	exitNotExecutable exitCode = 126
	exitNotFound      exitCode = 127
)

func cannotRun(err error) exitCode {
	if errors.Is(err, exec.ErrNotFound) || errors.Is(err, os.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// serverConfig returns the configuration of an in-memory server on a free port, modified by flags.
func (f *runFlags) serverConfig() (host.Config, error) {
	if err := f.check(); err != nil {
		return host.Config{}, err
	}
	if f.controlPlanes < 0 {
		return host.Config{}, fmt.Errorf("--control-planes is %d; it cannot be negative", f.controlPlanes)
	}
	config := f.config
	config.Version = version
	if !f.all.Changed("secure-port") {
		config.Listen.SecurePort = host.AnyPort
	}
	config.Storage.InMemory = !f.all.Changed("data-dir") && len(config.Storage.Etcd.Servers) == 0
	if config.Storage.Embedded.Snapshot = f.forkOf; f.forkOf != "" && !config.Storage.InMemory {
		return host.Config{}, errors.New("--fork-of starts a server in memory, and cannot be combined with --data-dir or --etcd-servers")
	}
	return config, nil
}

func (f *runFlags) addFlags(flags *pflag.FlagSet) {
	flags.StringArrayVar(&f.crds, "crds", nil, "file or folder of CustomResourceDefinitions to create before the command starts; may be repeated")
	flags.StringArrayVar(&f.manifests, "manifests", nil, "file or folder of objects to apply before the command starts; may be repeated")
	flags.StringArrayVar(&f.users, "users", nil, "user with a context of that name in the kubeconfig, as NAME or NAME:GROUP,...; may be repeated")
	flags.IntVar(&f.controlPlanes, "control-planes", 0, "number of further, isolated APIs with the same CustomResourceDefinitions and objects, for parallel test workers; their kubeconfigs are in KUBECONFIG_0, KUBECONFIG_1, ...")
	flags.StringVar(&f.forkOf, "fork-of", "", "file of a snapshot (see \"mainstay snapshot save\") whose objects the server starts with; the file does not change")
	flags.BoolVar(&f.keepOnFailure, "keep-on-failure", false, "if the command fails, keep the server running until Ctrl-C")
	flags.StringVar(&f.logFile, "server-log", "", "log file of the server, - for the standard error (default: no log)")
}

// fixtures reads the objects of --crds and --manifests.
func (f *runFlags) fixtures() ([]manifests.Object, error) {
	definitions, err := manifests.ReadDefinitions(f.crds...)
	if err != nil {
		return nil, fmt.Errorf("--crds: %w", err)
	}
	objects, err := manifests.Read(f.manifests...)
	if err != nil {
		return nil, fmt.Errorf("--manifests: %w", err)
	}
	return append(definitions, objects...), nil
}

// openLog sets the logger of the server according to --server-log. Without the flag, logging is disabled, so
// that only the command writes output. The returned function closes the log file.
func (f *runFlags) openLog(config *host.Config, stderr io.Writer, p process) (func() error, error) {
	log, done := f.log, func() error { return nil }
	switch f.logFile {
	case "":
		p.logLibraries(slog.New(slog.DiscardHandler))
		return done, nil
	case "-":
		log.Output = stderr
	default:
		file, err := os.Create(f.logFile)
		if err != nil {
			return nil, fmt.Errorf("--server-log: %w", err)
		}
		log.Output, done = file, file.Close
	}
	logger, err := telemetry.NewLogger(log)
	if err != nil {
		return nil, errors.Join(&usageError{fmt.Errorf("--logging-format: %w", err)}, done())
	}
	p.logLibraries(logger)
	config.Logger = logger
	return done, nil
}

// parseUsers parses the values of --users, which have the form NAME or NAME:GROUP,GROUP.
func parseUsers(values []string) ([]host.User, error) {
	var users []host.User
	taken := map[string]bool{"": true, "mainstay": true, "kubernetes-admin": true}
	for _, value := range values {
		name, groups, _ := strings.Cut(value, ":") // groups may contain colons, such as system:masters
		if taken[name] {
			return nil, fmt.Errorf("--users is %q; it must be a unique name, as in jane or jane:developers,testers", value)
		}
		taken[name] = true
		user := host.User{Name: name}
		if groups != "" {
			user.Groups = strings.Split(groups, ",")
		}
		if slices.Contains(user.Groups, "") {
			return nil, fmt.Errorf("--users is %q; a group name is empty", value)
		}
		users = append(users, user)
	}
	return users, nil
}
