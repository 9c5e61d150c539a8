package library

import "github.com/google/cel-go/cel"

// library implements cel.SingletonLibrary: an environment includes it at most once.
type library struct {
	name    string
	options []cel.EnvOption
	program []cel.ProgramOption
}

var _ cel.SingletonLibrary = library{}

// All returns an option that adds the libraries of this package, except Authorizer and JSONPatch. The option
// must be used for only one environment.
func All() cel.EnvOption {
	libraries := []cel.EnvOption{Lists(), Regex(), URLs(), IP(), CIDR(), Quantity(), Formats(), Semver()}
	return func(env *cel.Env) (*cel.Env, error) {
		for _, option := range libraries {
			var err error
			if env, err = option(env); err != nil {
				return nil, err
			}
		}
		return env, nil
	}
}

// LibraryName implements cel.SingletonLibrary.
func (l library) LibraryName() string { return l.name }

// CompileOptions implements cel.Library.
func (l library) CompileOptions() []cel.EnvOption { return l.options }

// ProgramOptions implements cel.Library.
func (l library) ProgramOptions() []cel.ProgramOption { return l.program }

// signature returns the argument types of an overload. The first argument of a member function is
// its receiver.
func signature(types ...*cel.Type) []*cel.Type { return types }
