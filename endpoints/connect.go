package endpoints

import (
	"net/url"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/rest"
)

// connect hands a request over to the handler of a subresource.
func (c *call) connect(s rest.Connecter) error {
	if !slices.Contains(s.ConnectMethods(), c.r.Method) {
		return methodNotAllowed()
	}
	query, _ := url.ParseQuery(c.r.URL.RawQuery) // as far as it can be read, as for all options
	if len(query["dryRun"]) > 0 {
		return apierrors.NewBadRequest("dryRun is not supported")
	}
	options, err := s.ConnectOptions(query, c.info.Tail)
	if err != nil {
		return asBadRequest(err)
	}
	ctx := c.r.Context()
	if chain := c.api.config.Admission; chain.Mutates(admission.Connect) || chain.Validates(admission.Connect) {
		a := &admission.Attributes{Request: c.request(c.r.Context(), admission.Connect, c.info.Name, nil, nil), Object: options}
		if err := chain.Mutate(ctx, a); err != nil {
			return err
		}
		if err := chain.Validate(ctx, a); err != nil {
			return err
		}
		options = a.Object
	}
	handler, err := s.Connect(ctx, c.name(), options)
	if err != nil {
		return err
	}
	handler.ServeHTTP(c.w, c.r)
	return nil
}
