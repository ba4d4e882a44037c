module bifrost.dev/veneer

go 1.23
