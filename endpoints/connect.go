package endpoints

import (
	"slices"

	"mainstay.dev/mainstay/admission"
	"mainstay.dev/mainstay/rest"
)

// connect hands a request over to the handler of a subresource.
func (c *call) connect(s rest.Connecter) error {
	if !slices.Contains(s.ConnectMethods(), c.r.Method) {
		return methodNotAllowed()
	}
	ctx := c.r.Context()
	a := c.attributes(admission.Connect, c.info.Name, false)
	if err := c.api.config.Admission.Mutate(ctx, &a); err != nil {
		return err
	}
	if err := c.api.config.Admission.Validate(ctx, &a); err != nil {
		return err
	}
	handler, err := s.Connect(ctx, c.name(), c.info.Tail)
	if err != nil {
		return err
	}
	handler.ServeHTTP(c.w, c.r)
	return nil
}
