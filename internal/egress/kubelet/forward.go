package kubelet

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilproxy "k8s.io/apimachinery/pkg/util/proxy"

	"mainstay.dev/mainstay/internal/egress/proxy"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// Forward returns a handler that forwards a request to the URL of a pod, service or node. It adds
// the query of the request to the URL. It rewrites links and redirects in the response so that they
// lead through this server. onError writes the response if the backend sent none.
func (c *Client) Forward(to *url.URL, transport http.RoundTripper, onError rest.ErrorWriter) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		upgrade := proxy.IsUpgrade(r)
		if to.Path == "" && !upgrade && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
			redirectToRoot(w, r)
			return
		}
		through, pages := transport, &pageTransport{RoundTripper: transport}
		if !upgrade {
			through = &utilproxy.Transport{
				Scheme: r.URL.Scheme, Host: r.URL.Host, PathPrepend: request.PathPrefix(r.Context()) + strings.TrimSuffix(r.URL.Path, to.Path), RoundTripper: pages,
			}
		}
		c.config.Proxy.Serve(w, r, &proxy.Backend{
			Transport: through,
			Rewrite: func(p *httputil.ProxyRequest) {
				target := *to
				target.RawQuery = r.URL.RawQuery
				p.Out.URL = &target
			},
			ModifyResponse: func(response *http.Response) error {
				pages.showType(response.Header)
				return checkForwarded(w, response, upgrade)
			},
			OnError: func(err error) {
				if r.Context().Err() == nil {
					onError(w, r, forwardError(err))
				}
			},
		})
	})
}

// redirectToRoot redirects a client to the path with a trailing slash, so that relative links in
// the response resolve correctly.
func redirectToRoot(w http.ResponseWriter, r *http.Request) {
	to := request.PathPrefix(r.Context()) + r.URL.Path + "/"
	if r.URL.RawQuery != "" {
		to += "?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusMovedPermanently)
}

// checkForwarded removes response headers that only this server may set. For upgrade requests, it
// checks the response with checkUpgrade.
func checkForwarded(w http.ResponseWriter, response *http.Response, upgrade bool) error {
	if upgrade {
		return checkUpgrade(response)
	}
	for name := range response.Header {
		if name == "Audit-Id" || strings.HasPrefix(name, "Access-Control-Allow-") {
			response.Header.Del(name)
			continue
		}
		w.Header().Del(name) // the backend's headers replace the headers set by filters
	}
	return nil
}

// forwardError returns the API error for a request that received no response.
func forwardError(err error) error {
	var known apierrors.APIStatus
	if errors.As(err, &known) {
		return err
	}
	var refused *net.AddrError
	if errors.As(err, &refused) && refused.Err == ErrAddressNotAllowed.Error() {
		return apierrors.NewBadRequest(refused.Err)
	}
	return apierrors.NewServiceUnavailable(fmt.Sprintf("error trying to reach service: %v", err))
}
