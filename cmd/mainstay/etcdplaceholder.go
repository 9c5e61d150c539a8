package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// placeholderHeader is the name of a header that all responses of the placeholder contain.
const placeholderHeader = "Mainstay-Placeholder"

// defaultClientURL is the default value of etcd's --listen-client-urls.
const defaultClientURL = "http://localhost:2379"

const placeholderHelp = `Replace etcd for envtest. The server responds to /health and /version on its client URLs and
stores nothing: the kube-apiserver of the same folder stores objects itself. Other flags of
etcd are accepted and have no effect.

Flags:
      --advertise-client-urls string
      --data-dir string
      --listen-client-urls string      URLs to listen on (default ` + defaultClientURL + `)
      --listen-peer-urls string
      --unsafe-no-fsync
`

func newEtcdPlaceholder(signals <-chan os.Signal) *cobra.Command {
	return &cobra.Command{
		Use:    etcdName,
		Short:  "Replace etcd for tests",
		Hidden: true,
		// All flags of etcd are accepted, so cobra must not parse them.
		DisableFlagParsing: true,
		RunE: func(c *cobra.Command, args []string) error {
			for _, arg := range args {
				switch arg {
				case "-h", "--help":
					fmt.Fprint(c.OutOrStdout(), placeholderHelp)
					return nil
				case "-version", "--version":
					printVersion(c.OutOrStdout())
					return nil
				}
			}
			ctx, stop := untilSignal(signals)
			defer stop()
			if err := servePlaceholder(ctx, clientURLs(args)); err != nil {
				return fmt.Errorf("run the etcd placeholder: %w", err)
			}
			return nil
		},
	}
}

// clientURLs returns the values of --listen-client-urls.
func clientURLs(args []string) []string {
	urls := defaultClientURL
	for i, arg := range args {
		name, value, inline := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if name != "listen-client-urls" || !strings.HasPrefix(arg, "-") {
			continue
		}
		switch {
		case inline:
			urls = value
		case i+1 < len(args):
			urls = args[i+1]
		}
	}
	return strings.Split(urls, ",")
}

// servePlaceholder serves the URLs until ctx ends.
func servePlaceholder(ctx context.Context, urls []string) error {
	mux := http.NewServeMux()
	handle := func(path, body string) {
		mux.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set(placeholderHeader, etcdName)
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintln(w, body)
		})
	}
	handle("/health", `{"health":"true","reason":""}`)
	handle("/readyz", "ok")
	handle("/livez", "ok")
	handle("/version", `{"etcdserver":"3.6.0","etcdcluster":"3.6.0"}`)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "this is Mainstay's placeholder for etcd, which stores nothing", http.StatusNotImplemented)
	})
	server := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	ended := make(chan error, len(urls))
	defer server.Close()
	for _, text := range urls {
		at, err := url.Parse(text)
		if err != nil {
			return fmt.Errorf("--listen-client-urls: %w", err)
		}
		if at.Scheme != "http" || at.Host == "" {
			return fmt.Errorf("--listen-client-urls is %q; it must be an http URL", text)
		}
		listener, err := net.Listen("tcp", at.Host)
		if err != nil {
			return err
		}
		go func() { ended <- server.Serve(listener) }() // ends with Close above
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-ended:
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	}
}
