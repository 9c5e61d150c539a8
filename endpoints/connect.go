package endpoints

import (
	"net/url"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/request"
	"mainstay.dev/mainstay/rest"
)

// connect hands a request over to the handler of a subresource.
func (c *call) connect(s rest.Connecter) error {
	connection := s.Connection()
	switch {
	case c.info.Tail != "" && !connection.TakesPath:
		return notFoundResource()
	case !slices.Contains(connection.Methods, c.r.Method):
		return methodNotAllowed()
	}
	query, _ := url.ParseQuery(c.r.URL.RawQuery) // as far as it can be read, as for all options
	if len(query["dryRun"]) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := s.ConnectOptions(query, connectPath(c.info))
	if err != nil {
		return asBadRequest(err)
	}
	ctx := c.r.Context()
	if chain := c.api.config.Admission; !connection.Text && (chain.Mutates(admission.Connect) || chain.Validates(admission.Connect)) {
		a := &admission.Attributes{Request: c.request(c.r.Context(), admission.Connect, c.info.Name, nil, nil), Object: options}
		if err := chain.Mutate(ctx, a); err != nil {
			return err
		}
		if err := chain.Validate(ctx, a); err != nil {
			return err
		}
		options = a.Object
	}
	handler, err := s.Connect(ctx, c.name(), options, c.api.WriteError)
	if err != nil {
		return err
	}
	handler.ServeHTTP(c.w, c.r)
	return nil
}

// connectPath returns what follows the subresource in the path, with its slashes:
// "" for nothing, not even a slash.
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
