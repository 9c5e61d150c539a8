// Package options is a fixture.
package options

import "github.com/spf13/pflag"

const name = "quick-"

func NewOptions() *Options {
	return &Options{Limit: 8, Words: nil}
}

func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Limit, "limit", o.Limit, "The limit.")
	fs.StringVarP(&o.Name, name+"name", "n", "water", "The name of it.")
	fs.Var(NewWords(&o.Words), "words", "Words.")
	fs.MarkDeprecated(name+"name", "use words")
}
