package endpoints

import (
	"net/http"
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/internal/admission"
	"mainstay.dev/mainstay/internal/request"
	"mainstay.dev/mainstay/internal/rest"
)

// connect passes a request to the handler of a subresource. A separate function finds the handler, to
// reduce the stack size of sessions, which may last for hours.
func (c *call) connect(s rest.Connecter) error {
	handler, err := c.connectHandler(s)
	if err != nil {
		return err
	}
	handler.ServeHTTP(c.w, c.r)
	return nil
}

// connectHandler checks and admits the request, and returns its handler.
func (c *call) connectHandler(s rest.Connecter) (http.Handler, error) {
	connection := s.Connection()
	switch {
	case c.info.Tail != "" && !connection.AllowsPath:
		return nil, notFoundResource()
	case !slices.Contains(connection.Methods, c.r.Method):
		return nil, methodNotAllowed()
	}
	query, _ := url.ParseQuery(c.r.URL.RawQuery) // parameters with invalid encoding are skipped, as in decodeQuery
	if len(query["dryRun"]) > 0 {
		return nil, apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := s.ConnectOptions(query, connectPath(c.info))
	if err != nil {
		return nil, asBadRequest(err)
	}
	ctx := c.r.Context()
	if chain := c.api.config.Admission; !connection.Text && (chain.Mutates(admission.Connect) || chain.Validates(admission.Connect)) {
		a := &admission.Attributes{Request: c.request(c.r.Context(), admission.Connect, c.info.Name, nil, nil), Object: options}
		if err := chain.Mutate(ctx, a); err != nil {
			return nil, err
		}
		if err := chain.Validate(ctx, a); err != nil {
			return nil, err
		}
		options = a.Object
	}
	return s.Connect(ctx, c.name(), options, c.api.WriteError)
}

// connectPath returns the path after the subresource, including its slashes, or "".
func connectPath(info *request.Info) string {
	path := info.Tail
	if path != "" {
		path = "/" + path
	}
	if strings.HasSuffix(info.Path, "/") {
		path += "/"
	}
	return path
}
