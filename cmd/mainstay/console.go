package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"runtime"
	"time"

	"github.com/spf13/cobra"

	"mainstay.dev/mainstay/internal/console/local"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
)

// consoleCommand is the command console.
type consoleCommand struct {
	kubeconfig, address, controlPlane string
	noBrowser                         bool

	in  io.Reader
	out io.Writer
	// open opens a URL in the user's browser.
	open func(page string) error
}

func newConsole(p process) *cobra.Command {
	k := consoleCommand{open: openBrowser}
	command := &cobra.Command{
		Use:   "console",
		Short: "Open the web console with the credentials of a kubeconfig",
		Long: `Serve the web console on a loopback address, and open it in the browser. The console sends
requests to the server of the kubeconfig, with the credentials of the kubeconfig.

The page exchanges a one-time code for a session. Codes and sessions exist in memory only:
after the page is reloaded, press Enter to open it again with a new code. The command
runs until it is interrupted.

The history, admission traces, charts, control planes and forks require Mainstay. The other
pages use only APIs of Kubernetes.`,
		Example: `  mainstay console
  mainstay console --kubeconfig=prod.kubeconfig --no-browser`,
		Args: noArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			ctx, stop := untilSignal(p.signals)
			defer stop()
			k.in, k.out = c.InOrStdin(), c.OutOrStdout()
			return k.run(ctx)
		},
	}
	flags := command.Flags()
	flags.SortFlags = false
	flags.StringVar(&k.address, "address", "127.0.0.1:0", "loopback address and port of the console; port 0 selects a free port")
	flags.StringVar(&k.controlPlane, "control-plane", "", "name of the control plane that is shown first (default: that of the kubeconfig's server)")
	flags.BoolVar(&k.noBrowser, "no-browser", false, "print the URL without opening a browser")
	kubeconfigVar(flags, &k.kubeconfig)
	return command
}

// consoleShutdownTimeout is how long requests in progress may take to finish after the command is interrupted.
const consoleShutdownTimeout = time.Second

func (k *consoleCommand) run(ctx context.Context) error {
	host, _, err := net.SplitHostPort(k.address)
	if ip := net.ParseIP(host); err != nil || host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return &usageError{fmt.Errorf("--address is %q; it must be a loopback address and a port, such as 127.0.0.1:8080", k.address)}
	}
	client, base, err := kubeconfig.Client(kubeconfigFile(k.kubeconfig), nil)
	if err != nil {
		return err
	}
	defer client.CloseIdleConnections()
	listener, err := net.Listen("tcp", k.address)
	if err != nil {
		return fmt.Errorf("serve the console: %w", err)
	}
	proxy, err := local.NewProxy(base, client.Transport, listener.Addr())
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	server := &http.Server{Handler: proxy, ReadHeaderTimeout: 10 * time.Second}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }() // ends with Shutdown or Close

	show := func() {
		page := fmt.Sprintf("http://%s%s/console/#code=%s", listener.Addr(), k.prefix(), proxy.NewCode())
		fmt.Fprintf(k.out, "%s\n", page)
		if k.noBrowser {
			return
		}
		if err := k.open(page); err != nil {
			fmt.Fprintf(k.out, "Open this URL in a browser (%v).\n", err)
		}
	}
	fmt.Fprintf(k.out, "The console of %s. Press Enter for a new session, and Ctrl+C to stop.\n", base)
	show()
	lines := readLines(k.in)
	for {
		select {
		case <-ctx.Done():
			ctx, cancel := context.WithTimeout(context.Background(), consoleShutdownTimeout)
			defer cancel()
			if server.Shutdown(ctx) != nil {
				return server.Close() // a watch is open
			}
			return nil
		case err := <-served:
			return fmt.Errorf("serve the console: %w", err)
		case _, ok := <-lines:
			if !ok {
				lines = nil // the input has ended, so no more codes can be requested
				continue
			}
			show()
		}
	}
}

// prefix returns the URL path prefix of the control plane.
func (k *consoleCommand) prefix() string {
	if k.controlPlane == "" {
		return ""
	}
	return "/clusters/" + url.PathEscape(k.controlPlane)
}

// readLines returns a channel that receives one value for each line of in, and is closed at the end of in. Its
// goroutine runs until then.
func readLines(in io.Reader) <-chan struct{} {
	lines := make(chan struct{})
	go func() {
		defer close(lines)
		for scanner := bufio.NewScanner(in); scanner.Scan(); {
			lines <- struct{}{}
		}
	}()
	return lines
}

// openBrowser opens a URL in the user's default browser.
func openBrowser(page string) error {
	var command *exec.Cmd
	switch runtime.GOOS {
	case "windows":
		command = exec.Command("rundll32", "url.dll,FileProtocolHandler", page)
	case "darwin":
		command = exec.Command("open", page)
	default:
		if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
			return errors.New("there is no display")
		}
		command = exec.Command("xdg-open", page)
	}
	if err := command.Start(); err != nil {
		return err
	}
	go func() { _ = command.Wait() }() // the process exits after it has passed the URL to the browser
	return nil
}
