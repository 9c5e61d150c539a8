// Command mainstay is a Kubernetes API server in one binary, with its own storage engine. This
// package converts flags and files into a host.Config and reports errors.
package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// version is set by the linker in release builds.
var version = "0.1.0-dev"

// Exit codes.
const (
	exitOK      = 0
	exitFailure = 1 // the command failed
	exitUsage   = 2 // invalid command line
)

func main() {
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	os.Exit(run(commandLine(os.Args), os.Stdout, os.Stderr, process{signals: signals, setLibraryLogger: klog.SetSlogLogger}))
}

// process contains the parts of the operating system process that commands use. In tests, several commands
// share one process, and each test passes its own value.
type process struct {
	// signals receives the signals that stop a command. If it is nil, nothing stops the command.
	signals <-chan os.Signal
	// setLibraryLogger sets the logger of libraries that log with klog, which is global. If it is nil, these
	// libraries keep their logger.
	setLibraryLogger func(*slog.Logger)
}

// logLibraries sets the logger of the libraries that log with klog.
func (p process) logLibraries(logger *slog.Logger) {
	if p.setLibraryLogger != nil {
		p.setLibraryLogger(logger)
	}
}

// commandLine returns the command-line arguments without the name of the executable. If the executable is named
// kube-apiserver or etcd, as for envtest, or like a kubectl plugin such as kubectl-history, commandLine
// prepends the subcommand of this name.
func commandLine(args []string) []string {
	switch name := strings.TrimSuffix(filepath.Base(args[0]), ".exe"); name {
	case kubeAPIServerName, etcdName:
		return append([]string{name}, args[1:]...)
	case "kubectl-history", "kubectl-at", "kubectl-undo":
		return append([]string{strings.TrimPrefix(name, "kubectl-")}, args[1:]...)
	}
	return args[1:]
}

// run executes a command line and returns the exit code. Tests call it instead of main.
func run(args []string, stdout, stderr io.Writer, p process) int {
	root := newRoot(p)
	root.SetArgs(args)
	root.SetOut(stdout)
	root.SetErr(stderr)
	command, err := root.ExecuteC()
	if err == nil {
		return exitOK
	}
	var ended exitCode
	if errors.As(err, &ended) {
		return int(ended)
	}
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(stderr, "mainstay: %s\n", strings.TrimSpace(line))
	}
	var usage *usageError
	if errors.As(err, &usage) {
		fmt.Fprintf(stderr, "See \"%s --help\".\n", command.CommandPath())
		return exitUsage
	}
	return exitFailure
}

func newRoot(p process) *cobra.Command {
	signals := p.signals
	root := &cobra.Command{
		Use:   "mainstay",
		Short: "A Kubernetes API server in one binary",
		Long: `Mainstay is a Kubernetes API server in one binary, with embedded storage.

Start a server and use it:

  mainstay serve
  export KUBECONFIG=$PWD/mainstay-data/admin.kubeconfig
  kubectl get namespaces`,
		Args:          unknownCommand,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetFlagErrorFunc(flagError)
	// cobra's built-in version flag uses text/template, which prevents the linker from removing unused methods.
	showVersion := root.Flags().Bool("version", false, "print the version of this program and of the API it serves")
	root.RunE = func(c *cobra.Command, _ []string) error {
		if *showVersion {
			printVersion(c.OutOrStdout())
			return nil
		}
		return c.Help()
	}
	root.AddCommand(newServe(p), newRun(p), newSnapshot(signals), newBackup(signals), newRestore(signals), newCheck(signals), newMigrate(signals), newRewrap(signals), newAt(p), newConsole(p), newHistory(signals), newDiff(signals), newUndo(signals), newFork(signals), newApplyDiff(signals), newVersion(), newRoutes(), newFeatures(), newAdmission(signals), newExplainAdmission(signals), newAuth(signals), newKubeconfig(signals),
		newEnvtestAssets(), newKubeAPIServer(p), newEtcdPlaceholder(signals))
	return root
}
