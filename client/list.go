package client

import (
	"context"
	"iter"
	"maps"
	"net/http"
	"net/url"
)

// page is one page of a list.
type page[T any] struct {
	Items      []T    `json:"items"`
	NextCursor string `json:"next_cursor"`
}

// List yields every object of a list, page by page, for as long as the caller goes on. query holds its filters; a limit in it is
// how many objects one request asks for. An error ends the list.
func List[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		q := maps.Clone(query)
		if q == nil {
			q = url.Values{}
		}
		for {
			p, err := Decode[page[T]](ctx, c, http.MethodGet, path, q, nil)
			if err != nil {
				var none T
				yield(none, err)
				return
			}
			for _, v := range p.Items {
				if !yield(v, nil) {
					return
				}
			}
			if p.NextCursor == "" {
				return
			}
			q.Set("cursor", p.NextCursor)
		}
	}
}

// All reads a list to its end.
func All[T any](ctx context.Context, c *Client, path string, query url.Values) ([]T, error) {
	out := []T{}
	for v, err := range List[T](ctx, c, path, query) {
		if err != nil {
			return nil, err
		}
		out = append(out, v)
	}
	return out, nil
}
