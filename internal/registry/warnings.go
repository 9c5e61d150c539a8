package registry

import (
	"context"

	"mainstay.dev/mainstay/internal/request"
)

func warn(ctx context.Context, texts []string) {
	for _, text := range texts {
		request.AddWarning(ctx, text)
	}
}
