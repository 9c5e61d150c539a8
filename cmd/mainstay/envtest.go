package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/controlplane"
)

// The names under which this program runs as kube-apiserver, and as a placeholder for etcd.
const (
	kubeAPIServerName = "kube-apiserver"
	etcdName          = "etcd"
)

// assetsMarker is the name of a file in each folder that envtest-assets has created and may replace. The file
// contains the values of --controllers and --emulated-version for the folder's kube-apiserver, one per line.
const assetsMarker = ".mainstay-envtest-assets"

func newEnvtestAssets() *cobra.Command {
	var controllers []string
	var emulation controlplane.EmulationOptions
	command := &cobra.Command{
		Use:   "envtest-assets DIR",
		Short: "Create a folder that envtest can use instead of kube-apiserver and etcd",
		Long: `Create a folder for KUBEBUILDER_ASSETS. Tests that use envtest, the package of
controller-runtime, or a similar package then run against Mainstay.

The kube-apiserver and etcd of the folder are this program. This etcd stores nothing;
the kube-apiserver stores objects in memory, or in the etcd of --etcd-servers if that
is a real one. kubectl is the one in PATH, if there is one.

As with the real kube-apiserver, no controller of kube-controller-manager runs: objects
with a deleted owner remain, and deleted namespaces remain in the phase Terminating.
--controllers selects controllers to run.

--kubernetes-version selects the Kubernetes version of the API, for tests against
several versions.`,
		Example: `  mainstay envtest-assets bin/envtest
  mainstay envtest-assets --controllers=namespace-controller,garbage-collector-controller bin/envtest
  mainstay envtest-assets --kubernetes-version=1.33 bin/envtest-1.33
  KUBEBUILDER_ASSETS=$PWD/bin/envtest go test ./...`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) != 1 || args[0] == "" {
				return &usageError{errors.New("one folder is required, as in mainstay envtest-assets bin/envtest")}
			}
			return nil
		},
		RunE: func(c *cobra.Command, args []string) error {
			options := controlplane.Options{
				Controllers: controlplane.ControllerOptions{Names: controllers},
				Features:    controlplane.FeatureOptions{Emulation: emulation},
			}
			if err := options.WithDefaults().Check(); err != nil {
				return &usageError{err}
			}
			dir, err := filepath.Abs(args[0])
			if err == nil {
				err = createAssets(dir, assets{controllers, emulation.Minor})
			}
			if err != nil {
				return fmt.Errorf("create the folder for envtest: %w", err)
			}
			fmt.Fprintf(c.OutOrStdout(), "To use it:  export KUBEBUILDER_ASSETS=%s\n", shellQuote(dir))
			return nil
		},
	}
	emulation.AddVersionFlag(command.Flags(), "kubernetes-version")
	command.Flags().StringSliceVar(&controllers, "controllers", nil, "controllers to run in the folder's kube-apiserver, comma-separated, with the syntax of --controllers of mainstay serve (default: no controllers)")
	return command
}

// assets contains the settings of the kube-apiserver in a folder.
type assets struct {
	controllers []string
	minor       int // emulated minor version; 0 emulates none
}

// encode returns the content of the file named assetsMarker.
func (a assets) encode() []byte {
	return fmt.Appendf(nil, "%s\n%d\n", strings.Join(a.controllers, ","), a.minor)
}

// readAssets returns the settings that envtest-assets has recorded in a folder. If the recorded list of
// controllers is empty, or if envtest-assets has not created the folder, all controllers are disabled.
func readAssets(dir string) (assets, error) {
	a := assets{controllers: []string{"-*"}}
	recorded, err := os.ReadFile(filepath.Join(dir, assetsMarker))
	if errors.Is(err, fs.ErrNotExist) {
		return a, nil
	}
	if err != nil {
		return a, fmt.Errorf("read the settings in the folder for envtest: %w", err)
	}
	controllers, minor, _ := strings.Cut(string(recorded), "\n")
	if controllers != "" {
		a.controllers = strings.Split(controllers, ",")
	}
	if minor = strings.TrimSpace(minor); minor == "" {
		return a, nil
	}
	if a.minor, err = strconv.Atoi(minor); err != nil {
		return a, fmt.Errorf("the file %s in the folder for envtest is damaged: create the folder again", assetsMarker)
	}
	return a, nil
}

// createAssets creates the files of the folder and records the settings in it. It replaces existing files only
// if envtest-assets has created the folder.
func createAssets(dir string, settings assets) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	mark, err := os.Lstat(filepath.Join(dir, assetsMarker))
	ours := err == nil && mark.Mode().IsRegular()
	if err == nil && !ours {
		return fmt.Errorf("%s in %s is not a regular file; choose another folder", assetsMarker, dir)
	}
	own, err := os.Executable()
	if err != nil {
		return err
	}
	if own, err = filepath.EvalSymlinks(own); err != nil {
		return err
	}
	sources := map[string]string{kubeAPIServerName: own, etcdName: own}
	if kubectl, err := exec.LookPath("kubectl"); err == nil {
		sources["kubectl"] = kubectl
	}
	for name := range sources {
		if _, err := os.Lstat(filepath.Join(dir, executableName(name))); !ours && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("another %s exists in %s; choose another folder", name, dir)
		}
	}
	if err := replaceFile(filepath.Join(dir, assetsMarker), settings.encode()); err != nil {
		return err
	}
	for name, source := range sources {
		link := os.Link
		if source != own {
			link = os.Symlink // kubectl may need neighboring files
		}
		if err := linkOrCopy(source, filepath.Join(dir, executableName(name)), link); err != nil {
			return err
		}
	}
	return nil
}

// replaceFile writes a new file and renames it to name. It never writes to an existing file, so it does not
// follow symbolic links.
func replaceFile(name string, content []byte) error {
	part, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	_, err = part.Write(content)
	if err := errors.Join(err, part.Chmod(0o644), part.Close()); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	if err := os.Rename(part.Name(), name); err != nil {
		return errors.Join(err, os.Remove(part.Name()))
	}
	return nil
}

// programDir returns the folder of the running executable, or "" if the operating system does not report it.
func programDir() string {
	program, err := os.Executable()
	if err != nil {
		return ""
	}
	return filepath.Dir(program)
}

func executableName(name string) string {
	if runtime.GOOS == "windows" {
		return name + ".exe"
	}
	return name
}

// linkOrCopy makes target a link to source, or a copy of source if links are not supported. It does not disturb
// a process that was started from target.
func linkOrCopy(source, target string, link func(source, target string) error) error {
	if one, err := os.Stat(source); err == nil {
		if other, err := os.Stat(target); err == nil && os.SameFile(one, other) {
			return nil
		}
	}
	part := target + ".new"
	if err := os.Remove(part); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if link(source, part) != nil { // another file system, or a file system without links
		if err := copyProgram(source, part); err != nil {
			return err
		}
	}
	if err := os.Rename(part, target); err != nil {
		return errors.Join(err, os.Remove(part))
	}
	return nil
}

func copyProgram(source, target string) error {
	from, err := os.Open(source)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(target, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	if err = errors.Join(err, to.Close()); err != nil { // for example, the disk is full
		return errors.Join(err, os.Remove(target))
	}
	return nil
}

func newKubeAPIServer(p process) *cobra.Command {
	flags := newServeFlags()
	command := &cobra.Command{
		Use:    kubeAPIServerName,
		Short:  "Serve the Kubernetes API with kube-apiserver's command line",
		Hidden: true,
		Args:   noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			if flags.version {
				printVersion(c.OutOrStdout())
				return nil
			}
			if err := flags.check(); err != nil {
				return &usageError{err}
			}
			ctx, stop := untilSignal(p.signals)
			err := flags.applyKubeAPIServerDefaults(ctx, programDir(), c.ErrOrStderr())
			stop()
			if err != nil {
				return err
			}
			return serve(flags, c.OutOrStdout(), c.ErrOrStderr(), p)
		},
	}
	flags.addTo(command.Flags())
	command.SetUsageFunc(flags.usage)
	return command
}

// applyKubeAPIServerDefaults replaces the defaults of serve with the defaults of kube-apiserver. Without
// --data-dir, the server writes only to --cert-dir. The server runs only the controllers that --controllers or
// the assets folder selects. The folder also selects the Kubernetes version. If --etcd-servers names the etcd
// placeholder, objects are stored in memory.
func (f *serveFlags) applyKubeAPIServerDefaults(ctx context.Context, assets string, log io.Writer) error {
	c := &f.config
	c.Storage.InMemory = !f.all.Changed("data-dir")
	settings, err := readAssets(assets)
	if err != nil {
		return err
	}
	if !f.all.Changed("controllers") {
		c.ControlPlane.Controllers.Names = settings.controllers
	}
	if !f.all.Changed("emulated-version") {
		c.ControlPlane.Features.Emulation.Minor = settings.minor
	}
	if len(c.Storage.Etcd.Servers) > 0 {
		placeholder, err := isPlaceholder(ctx, c.Storage.Etcd.Servers[0])
		if err != nil {
			return err
		}
		if !placeholder {
			return nil
		}
		fmt.Fprintf(log, "mainstay: --etcd-servers=%s is Mainstay's placeholder: this server stores objects in memory\n", strings.Join(c.Storage.Etcd.Servers, ","))
		c.Storage.Etcd.Servers = nil
	}
	// Tests create objects whose owners do not exist, and finalize namespaces themselves.
	controllers := &c.ControlPlane.Controllers
	controllers.KeepUnknownOwners, controllers.NamespaceGrace = true, namespaceGrace
	return nil
}

// namespaceGrace is the delay before the namespace controller, if selected, finalizes a deleted namespace, so
// that tests can finalize it themselves.
const namespaceGrace = 500 * time.Millisecond

// placeholderTimeout is the maximum time to wait for an etcd that does not listen yet. placeholderPoll is
// the polling interval.
const (
	placeholderTimeout = 10 * time.Second
	placeholderPoll    = 20 * time.Millisecond
)

// isPlaceholder reports whether the server at a URL is the etcd placeholder. It waits until the server
// responds, and returns false after placeholderTimeout. It returns an error only if ctx ends.
func isPlaceholder(ctx context.Context, url string) (bool, error) {
	if !strings.HasPrefix(url, "http://") {
		return false, nil
	}
	deadline := time.Now().Add(placeholderTimeout)
	poll := time.NewTicker(placeholderPoll)
	defer poll.Stop()
	for {
		attempt, cancel := context.WithDeadline(ctx, deadline)
		placeholder, err := probeEtcd(attempt, url)
		cancel()
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case err == nil:
			return placeholder, nil
		case time.Now().After(deadline):
			return false, nil // opening the store reports the error
		}
		<-poll.C
	}
}

func probeEtcd(ctx context.Context, url string) (placeholder bool, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(url, "/")+"/health", nil)
	if err != nil {
		return false, err
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Do(req)
	if err != nil {
		return false, err
	}
	resp.Body.Close()
	return resp.Header.Get(placeholderHeader) != "", nil
}
