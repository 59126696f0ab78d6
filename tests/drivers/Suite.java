// The JDBC driver against an instance: what people's programs do, checked by value and type.
// The environment says where: PORT, ROOT (the authority's certificate). Java has no unix sockets for it.

import java.sql.*;
import java.util.*;
import java.util.concurrent.*;

public class Suite {
    static final String ENDLESS =
        "WITH RECURSIVE r(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM r) SELECT count(*) FROM r";

    interface Action { void run() throws Exception; }

    static void check(boolean holds, Object what) {
        if (!holds) throw new AssertionError(String.valueOf(what));
    }

    static SQLException refused(String state, Action what) throws Exception {
        try {
            what.run();
        } catch (SQLException error) {
            check(state.equals(error.getSQLState()), state + ": " + error.getSQLState() + " " + error.getMessage());
            return error;
        }
        throw new AssertionError("not refused: " + state);
    }

    static Connection connect(String user, String password) throws SQLException {
        Properties properties = new Properties();
        properties.setProperty("user", user);
        properties.setProperty("password", password);
        properties.setProperty("sslmode", "verify-full");
        properties.setProperty("sslrootcert", System.getenv("ROOT"));
        return DriverManager.getConnection("jdbc:postgresql://127.0.0.1:" + System.getenv("PORT") + "/plinth", properties);
    }

    static void queries(Connection connection) throws Exception {
        String sql = "SELECT disk_number, name, free_mb / 2 AS half, create_date FROM v$asm_disk"
            + " WHERE group_number = ? AND name LIKE ? ORDER BY 1";
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            // From the fifth on it is prepared on the server, and results are binary.
            for (int round = 0; round < 8; round++) {
                statement.setInt(1, 1);
                statement.setString(2, "DATA%");
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next() && rows.getLong(1) == 0 && rows.getString(2).equals("DATA_0000"), round);
                    check(rows.getDouble("half") > 0 && rows.getObject("half") instanceof Double, round);
                    check(rows.getObject(1) instanceof Long && rows.getString("create_date").length() == 19, round);
                    check(rows.getObject("create_date") instanceof Timestamp, rows.getObject("create_date"));
                    check(rows.next() && rows.getInt("disk_number") == 1 && !rows.next(), round);
                }
            }
            ResultSetMetaData columns = statement.getMetaData();
            check(columns.getColumnType(1) == Types.BIGINT && columns.getColumnType(2) == Types.VARCHAR
                && columns.getColumnType(3) == Types.DOUBLE && columns.getColumnType(4) == Types.TIMESTAMP,
                columns.getColumnTypeName(4));
        }
        try (PreparedStatement statement = connection.prepareStatement(sql)) {
            // Nothing was said of it yet: its type is what it is compared with.
            check(statement.getParameterMetaData().getParameterType(1) == Types.BIGINT, "type of a parameter");
        }
        try (PreparedStatement statement = connection.prepareStatement("SELECT ?::text, ?::int, ?::float8, ?")) {
            statement.setNull(1, Types.VARCHAR);
            statement.setLong(2, 1L << 40);
            statement.setBigDecimal(3, new java.math.BigDecimal("0.125"));
            statement.setString(4, "grün");
            try (ResultSet rows = statement.executeQuery()) {
                check(rows.next() && rows.getString(1) == null && rows.getLong(2) == 1L << 40, "long");
                check(rows.getDouble(3) == 0.125 && rows.getString(4).equals("grün"), rows.getString(4));
            }
        }
        try (PreparedStatement statement = connection.prepareStatement(
                "SELECT count(*), max(sysdate), NULL::timestamp FROM v$asm_disk WHERE create_date BETWEEN ? AND ?")) {
            for (int round = 0; round < 8; round++) {
                statement.setTimestamp(1, Timestamp.valueOf("2020-01-01 00:00:00"));
                statement.setTimestamp(2, new Timestamp(System.currentTimeMillis() + 86_400_000L));
                try (ResultSet rows = statement.executeQuery()) {
                    check(rows.next() && rows.getInt(1) == 2, rows.getInt(1));
                    check(rows.getTimestamp(2) != null && rows.getTimestamp(3) == null, rows.getString(2));
                }
            }
        }
        connection.setAutoCommit(false);
        try (Statement statement = connection.createStatement()) {
            // A portal is read in parts.
            statement.setFetchSize(7);
            int count = 0;
            try (ResultSet rows = statement.executeQuery("SELECT LEVEL FROM dual CONNECT BY LEVEL <= 50")) {
                while (rows.next()) check(rows.getInt(1) == ++count, count);
            }
            check(count == 50, count);
            Savepoint savepoint = connection.setSavepoint();
            connection.rollback(savepoint);
            refused("25001", () -> statement.execute("ALTER DISKGROUP data REBALANCE"));
        }
        connection.commit();
        connection.setAutoCommit(true);
        connection.setReadOnly(true);
        connection.setReadOnly(false);
        check(connection.isValid(5), "valid");
    }

    static void metadata(Connection connection) throws Exception {
        DatabaseMetaData metadata = connection.getMetaData();
        Set<String> tables = new HashSet<>();
        try (ResultSet rows = metadata.getTables(null, null, "v$asm%", new String[] {"VIEW"})) {
            while (rows.next()) tables.add(rows.getString("TABLE_NAME"));
        }
        check(tables.contains("v$asm_disk") && tables.contains("v$asm_alias"), tables);
        Map<String, Integer> columns = new HashMap<>();
        try (ResultSet rows = metadata.getColumns(null, "public", "v$asm_disk", "%")) {
            while (rows.next()) columns.put(rows.getString("COLUMN_NAME"), rows.getInt("DATA_TYPE"));
        }
        check(Integer.valueOf(Types.BIGINT).equals(columns.get("total_mb")), columns);
        check(Integer.valueOf(Types.VARCHAR).equals(columns.get("name")), columns);
        check(Integer.valueOf(Types.TIMESTAMP).equals(columns.get("create_date")), columns);
    }

    static void errors(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            SQLException missing = refused("42P01", () -> statement.executeQuery("SELECT * FROM v$asm_nothing"));
            check(missing.getMessage().contains("Position: 15") && missing.getMessage().contains("ORA-00942"), missing);
            refused("42703", () -> statement.executeQuery("SELECT missing FROM v$asm_disk"));
            refused("0A000", () -> statement.executeUpdate("UPDATE v$asm_disk SET name = 'x'"));
            refused("55000", () -> statement.execute("ALTER DISKGROUP nix REBALANCE"));
            statement.execute("ALTER DISKGROUP data CHECK");
            check(statement.getWarnings() != null && statement.getWarnings().getMessage().contains("0 left"), "warnings");
        }
    }

    static void cancelling(Connection connection) throws Exception {
        try (Statement statement = connection.createStatement()) {
            ScheduledExecutorService later = Executors.newSingleThreadScheduledExecutor();
            later.schedule(() -> { statement.cancel(); return null; }, 300, TimeUnit.MILLISECONDS);
            SQLException error = refused("57014", () -> statement.executeQuery(ENDLESS));
            check(error.getMessage().contains("ORA-01013"), error);
            later.shutdown();
            statement.setQueryTimeout(1);
            refused("57014", () -> statement.executeQuery(ENDLESS));
            statement.setQueryTimeout(0);
            try (ResultSet rows = statement.executeQuery("SELECT 1")) {
                check(rows.next() && rows.getInt(1) == 1, "after");
            }
        }
    }

    public static void main(String[] arguments) throws Exception {
        try (Connection connection = connect("boss", "secret")) {
            queries(connection);
            metadata(connection);
            errors(connection);
            cancelling(connection);
        }
        refused("28P01", () -> connect("boss", "wrong"));
        refused("28P01", () -> connect("nobody", "secret"));
        try (Connection connection = connect("viewer", "secret"); Statement statement = connection.createStatement()) {
            refused("42501", () -> statement.execute("ALTER DISKGROUP data DISMOUNT"));
        }
        System.out.println("fine");
    }
}
