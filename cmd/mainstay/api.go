package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"mainstay.dev/mainstay/internal/apis/history"
	"mainstay.dev/mainstay/internal/egress/kubeconfig"
	"mainstay.dev/mainstay/internal/host"
)

// apiClient sends requests to a running server as the user of a kubeconfig.
type apiClient struct {
	http *http.Client
	url  string
}

const (
	// apiTimeout is the timeout of a request, apiMaxBytes the maximum size of a response, and
	// apiPageSize the number of objects per list request.
	apiTimeout  = time.Minute
	apiMaxBytes = 256 << 20
	apiPageSize = "500"
)

// newAPIClient returns a client with the credentials of a kubeconfig. If file is "", it reads the file that
// $KUBECONFIG names or, if that is not set, the kubeconfig in ./mainstay-data.
func newAPIClient(file string) (*apiClient, error) {
	client, at, err := kubeconfig.Client(kubeconfigFile(file), nil)
	if err != nil {
		return nil, err
	}
	client.Timeout = apiTimeout
	return &apiClient{client, at}, nil
}

// kubeconfigVar defines the flag --kubeconfig, whose value is the argument of newAPIClient.
func kubeconfigVar(flags *pflag.FlagSet, file *string) {
	flags.StringVar(file, "kubeconfig", "", "kubeconfig of the server and the user (default: $KUBECONFIG, or ./mainstay-data/admin.kubeconfig)")
}

// kubeconfigFile returns the path of the kubeconfig that newAPIClient(file) reads.
func kubeconfigFile(file string) string {
	return cmp.Or(file, environmentKubeconfig(), filepath.Join(host.DefaultDataDir, "admin.kubeconfig"))
}

// environmentKubeconfig returns the path in $KUBECONFIG. If the variable contains a list, as for kubectl, it returns
// the first file that exists: kubectl uses the current context of this file, unless the file has none.
func environmentKubeconfig() string {
	value := os.Getenv("KUBECONFIG")
	for _, file := range filepath.SplitList(value) {
		if info, err := os.Stat(file); err == nil && !info.IsDir() {
			return file
		}
	}
	return value
}

// do sends a request and decodes the response into result. If body is not nil, it is sent as JSON; the body of
// a PATCH is a merge patch. do returns an error if the response is not successful.
func (c *apiClient) do(ctx context.Context, method, path string, body, result any) error {
	var sent io.Reader
	if body != nil {
		text, err := json.Marshal(body)
		if err != nil {
			return err
		}
		sent = bytes.NewReader(text)
	}
	r, err := http.NewRequestWithContext(ctx, method, c.url+path, sent)
	if err != nil {
		return err
	}
	r.Header.Set("Accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json")
	switch {
	case method == http.MethodPatch:
		r.Header.Set("Content-Type", "application/merge-patch+json")
	case body != nil:
		r.Header.Set("Content-Type", "application/json")
	}
	response, err := c.http.Do(r)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode < 200 || response.StatusCode > 299 {
		message := responseError(response)
		if message == response.Status && response.StatusCode == http.StatusNotFound { // the path does not exist
			message += missingPath(path)
		}
		return fmt.Errorf("%s %s: %w", method, path, &apiError{response.StatusCode, message})
	}
	decoder := json.NewDecoder(io.LimitReader(response.Body, apiMaxBytes))
	decoder.UseNumber() // a float64 cannot represent all 64-bit integers
	if err := decoder.Decode(result); err != nil {
		return fmt.Errorf("%s %s: read the response: %w", method, path, err)
	}
	return nil
}

// missingPath returns an explanation why a server does not have a path, or "" if the reason is unknown.
func missingPath(path string) string {
	switch {
	case strings.HasPrefix(path, versionPath(history.GroupVersion())):
		return ": the server has no history for this API; the history covers the root control plane, and --history-max-age enables it"
	case strings.HasPrefix(path, controlPlanesPath()):
		return ": this API has no control planes; use a kubeconfig of the root control plane"
	}
	return ""
}

// apiError is the error for a response that is not successful.
type apiError struct {
	code    int
	message string
}

func (e *apiError) Error() string { return e.message }

// isStatus reports whether err is an apiError with one of the given status codes.
func isStatus(err error, codes ...int) bool {
	var failed *apiError
	return errors.As(err, &failed) && slices.Contains(codes, failed.code)
}

// isTemporary reports whether a creation failed because the object or its namespace is being deleted. A later
// attempt may then succeed.
func (e *apiError) isTemporary() bool {
	return strings.Contains(e.message, "being deleted") || strings.Contains(e.message, "being terminated")
}

// listAll returns the objects of a collection that match a query, which may be nil. It reads the collection
// page by page.
func listAll[T any](ctx context.Context, c *apiClient, path string, query url.Values) ([]T, error) {
	query = maps.Clone(query)
	if query == nil {
		query = url.Values{}
	}
	query.Set("limit", apiPageSize)
	var all []T
	for next := ""; ; {
		var page struct {
			Metadata struct {
				Continue string `json:"continue"`
			} `json:"metadata"`
			Items []T `json:"items"`
		}
		if next != "" {
			query.Set("continue", next)
		}
		if err := c.do(ctx, http.MethodGet, path+"?"+query.Encode(), nil, &page); err != nil {
			return nil, err
		}
		all = append(all, page.Items...)
		if next = page.Metadata.Continue; next == "" {
			return all, nil
		}
	}
}
