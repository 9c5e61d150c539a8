// Package options is a fixture.
package options

import "github.com/spf13/pflag"

const name = "quick-"

func NewOptions() *Options {
	return &Options{Limit: 4, Words: nil}
}

func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.Limit, "limit", o.Limit, "The limit.")
	fs.StringVarP(&o.Name, name+"name", "n", "water", "The name.")
	fs.BoolVar(&o.Old, "old", false, "Old.")
}
